"""What people type, and what they are told: pipes, options by their own names, extras that are really missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import rankwolf as rw
from rankwolf.cli.main import main

ROWS = 40


def numbers():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((ROWS, 2)) @ rng.standard_normal((2, 6)) + 0.02 * rng.standard_normal(
        (ROWS, 6)
    )
    data[3, 4] += 50.0
    return np.round(data, 4)


def table():
    frame = pd.DataFrame(numbers(), columns=[f"s{k}" for k in range(6)])
    frame.insert(0, "day", pd.date_range("2024-01-01", periods=ROWS).strftime("%Y-%m-%d"))
    return frame


def rankwolf(*words, given=b"", **environment):
    """The command in a process of its own: exit code, standard output, standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "rankwolf", *map(str, words)],
        input=given,
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def refused(capsys, *words):
    """The one line that is said."""
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    return said.err.removeprefix("rankwolf: error: ").strip()


def test_a_table_goes_through_a_pipe():
    text = table().to_csv(index=False, sep=";", decimal=",").encode("latin-1")
    code, out, err = rankwolf("decompose", "-", "-o", "-", given=text)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "day;s0;s1;s2;s3;s4;s5" and len(lines) == ROWS + 1
    assert re.fullmatch(r"2024-01-04(;-?\d+,\d+(e-\d+)?){6}", lines[4])
    # Words go elsewhere.
    assert "Cells are separated by semicolons." in err and "Decimal commas were assumed." in err
    assert "low-rank part of rank 2" in err
    low_rank = np.array([line.replace(",", ".").split(";")[1:] for line in lines[1:]], np.float64)
    clean = np.abs(numbers() - low_rank) < 1.0
    assert clean.sum() == clean.size - 1 and not clean[3, 4]


def test_other_kinds_come_by_standard_input(tmp_path, monkeypatch, capsys):
    table().to_excel(tmp_path / "a.xlsx", index=False)
    table().to_feather(tmp_path / "a.feather")
    table().to_csv(tmp_path / "a.csv.gz", index=False)
    np.save(tmp_path / "a.npy", numbers())
    np.savez(tmp_path / "a.npz", x=numbers())
    for name in ("a.xlsx", "a.feather", "a.csv.gz", "a.npy", "a.npz"):
        with open(tmp_path / name) as file:
            # Standard input of this process: one of its own for each kind would take seconds.
            monkeypatch.setattr("sys.stdin", file)
            assert main(["decompose", "-", "-o", "-", "--part", "outliers", "--quiet"]) == 0, name
        lines = capsys.readouterr().out.splitlines()
        named = name not in ("a.npy", "a.npz")
        assert len(lines) == ROWS + named
        row = lines[3 + named].split(",")[named:]
        assert float(row[4]) > 40.0 and row[0] == "0.0"


def test_an_empty_pipe_is_one_line():
    code, out, err = rankwolf("decompose", "-", "-o", "-", given=b"")
    assert (code, out) == (2, "")
    assert err == "rankwolf: error: Standard input is empty. Give a table or a matrix.\n"
    code, out, err = rankwolf("decompose", "-", "-o", "-", given=b"hello\nworld\n")
    assert code == 2 and err.startswith(
        "rankwolf: error: Cannot read 'standard input': its column 'hello' must hold"
    )


def test_options_that_do_not_go_with_a_pipe(tmp_path, capsys):
    table().to_csv(tmp_path / "a.csv", index=False)
    place = tmp_path / "a.csv"
    assert "--json does not go with -o -" in refused(capsys, "decompose", place, "-o", "-", "--json")
    assert "--report does not go with -o -" in refused(capsys, "decompose", place, "-o", "-", "--report")
    assert "--format csv or tsv" in refused(capsys, "decompose", place, "-o", "-", "--format", "npy", "-q")
    assert "Give -o - with it" in refused(
        capsys, "decompose", place, "-o", tmp_path / "x", "--part", "outliers"
    )


def test_what_was_assumed_is_said_and_written_down(tmp_path, capsys):
    frame = table().rename(columns={"s0": "Größe"}).assign(id=range(1, ROWS + 1))
    frame.to_csv(tmp_path / "a.txt", index=False, sep=";", decimal=",", encoding="latin-1")
    assert main(["decompose", str(tmp_path / "a.txt"), "-o", str(tmp_path / "out"), "--standardize"]) == 0
    said = capsys.readouterr().out
    assert "The text is not UTF-8; Latin-1 (Windows-1252) was assumed." in said
    assert "treated as data: id (--index NAME names the rows by it, --drop NAME leaves it out)" in said
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary["treated_as_data"] == ["id"] and len(summary["notes"]) == 4
    assert "The rows are named by day (--index takes another column, or none)." in said
    # The parts are written as the table was: semicolons and decimal commas, in UTF-8.
    first = (tmp_path / "out" / "low_rank.csv").read_text(encoding="utf-8").splitlines()[0]
    assert first == "day;Größe;s1;s2;s3;s4;s5;id"
    named = ["--index", "id", "--drop", "day"]
    assert main(["decompose", str(tmp_path / "a.txt"), "-o", str(tmp_path / "named"), *named]) == 0
    assert "treated as data" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["xlsx", "feather", "csv.gz"])
def test_the_parts_are_of_the_kind_of_the_input(kind, tmp_path, capsys):
    path = tmp_path / f"a.{kind}"
    if kind == "csv.gz":
        table().to_csv(path, index=False)
    else:
        getattr(table(), {"xlsx": "to_excel"}.get(kind, "to_feather"))(
            path, **({"index": False} if kind == "xlsx" else {})
        )
    assert main(["decompose", str(path), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    read = {"xlsx": pd.read_excel, "feather": pd.read_feather, "csv.gz": pd.read_csv}[kind]
    found = read(tmp_path / "out" / f"outliers.{kind}")
    if "day" in found.columns:
        found = found.set_index("day")
    assert found.columns.tolist() == [f"s{k}" for k in range(6)]
    assert found.loc["2024-01-04", "s4"] > 40.0


def test_one_outlier_is_not_called_outliers(tmp_path, capsys):
    rng = np.random.default_rng(0)
    data = np.outer(rng.standard_normal(40), rng.standard_normal(20)) + 0.02 * rng.uniform(
        -1.0, 1.0, (40, 20)
    )
    data[3, 4] += 50.0  # uniform noise has no tail: it is the only one
    names = ["=a", *(f"s{k}" for k in range(19))]
    pd.DataFrame(data, columns=names).to_csv(tmp_path / "a.csv", index=False)
    assert main(["decompose", str(tmp_path / "a.csv"), "-o", str(tmp_path / "out"), "--report"]) == 0
    said = capsys.readouterr()
    assert "rank 1, 1 outlier beside noise of" in said.out
    assert "1 name of a row or column begins like a formula" in said.err
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "1 entry" in page and "1 entries" not in page
    found = rw.load(tmp_path / "out" / "result.npz")
    assert "S with 1 nonzero (" in repr(found) and ", 1 nonzero, " in repr(found.sparse)


def test_a_value_that_begins_with_a_minus(tmp_path, capsys):
    """argparse takes -999x for an option: the error says how to give it, and that works."""
    frame = table().astype({"s1": object})
    frame.loc[5, "s1"] = "-999x"
    frame.to_csv(tmp_path / "a.csv", index=False)
    words = ["decompose", str(tmp_path / "a.csv"), "-o", str(tmp_path / "out")]
    for given in (["--missing", "-999x"], ["--missing", "bad", "-999x"], ["--delta", "-1e-3"]):
        with pytest.raises(SystemExit) as stopped:
            main([*words, *given])
        assert stopped.value.code == 2
        assert "joined to its option, as in --missing=-999x" in capsys.readouterr().err
    assert main([*words, "--missing", "bad", "--missing=-999x"]) == 0
    assert "0.4% missing" in capsys.readouterr().out
    with pytest.raises(SystemExit):  # an option that is not there needs no such advice
        main([*words, "--misssing", "bad"])
    assert "joined" not in capsys.readouterr().err


def test_complaints_name_the_option_that_was_typed(tmp_path, capsys):
    table().to_csv(tmp_path / "a.csv", index=False)
    start = ("decompose", tmp_path / "a.csv", "-o", tmp_path / "out", "--quiet")
    said = {
        ("--threads", "0"): "--threads must be a whole number of at least 1. Got 0 instead.",
        ("--tol", "-1"): "--tol must be at least 0. Got -1.0 instead.",
        ("--max-seconds", "0"): "--max-seconds must be positive. Got 0.0 instead.",
        ("--delta", "-2"): "--delta must be 'auto' or a positive, finite number. Got -2.0 instead.",
        (
            "--seed",
            "-1",
        ): "--seed must be None, a whole number of at least 0 or a numpy Generator. Got -1 instead.",
        ("--max-iter", "0"): "--max-iter must be a whole number of at least 1. Got 0 instead.",
        ("--checkpoint-every", "x"): "--checkpoint-every must be a number of passes or a time such as",
        ("--method", "magic"): "--method must be 'auto', a solver, or one of",
    }
    for options, words in said.items():
        assert refused(capsys, *start, *options).startswith(words), options
    assert main([*map(str, start), "--max-iter", "1"]) == 0
    warned = capsys.readouterr().err
    assert "Raise --max-iter or --tol." in warned and "max_iter" not in warned


def without(folder, *packages):
    """An environment in which these packages are not installed, in the child process too."""
    lines = ["import sys", *(f"sys.modules[{name!r}] = None" for name in packages)]
    (folder / "sitecustomize.py").write_text("\n".join(lines), encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}


def test_the_extra_that_is_missing_is_named_at_once(tmp_path):
    table().to_csv(tmp_path / "a.csv", index=False)
    np.save(tmp_path / "a.npy", numbers())
    everything = (
        "rich",
        "matplotlib",
        "jinja2",
        "av",
        "PIL",
        "pandas",
        "pyarrow",
        "h5py",
        "zarr",
        "openpyxl",
        "sklearn",
    )
    bare = without(tmp_path, *everything)
    # A matrix of NumPy's needs none of them.
    code, out, err = rankwolf("decompose", tmp_path / "a.npy", "-o", tmp_path / "out", **bare)
    assert (code, err) == (0, "") and "low-rank part of rank 2" in out
    cases = {
        ("decompose", tmp_path / "a.csv", "-o", tmp_path / "x"): ("'pandas'", "io"),
        ("decompose", tmp_path / "a.npy", "-o", tmp_path / "x", "--report"): ("'jinja2'", "report"),
        ("separate", tmp_path / "clip.mp4", "-o", tmp_path / "x"): ("'av' and 'PIL' and 'jinja2'", "video"),
        ("demo", "-o", tmp_path / "x"): (
            "'av' and 'PIL' and 'jinja2' and 'matplotlib' and 'sklearn'",
            "report,sklearn,video",
        ),
    }  # fmt: skip
    (tmp_path / "clip.mp4").write_bytes(b"\0" * 100)
    for words, (packages, extra) in cases.items():
        code, out, err = rankwolf(*words, **bare)
        plural = "s" if " and " in packages else ""
        them = "them" if plural else "it"
        assert (code, out) == (2, "")
        assert err == (
            f"rankwolf: error: This needs the package{plural} {packages}. "
            f"Install {them} with: pip install 'rankwolf[{extra}]'\n"
        )


def test_completion_in_bash(capsys):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out

    def complete(*words):
        line = " ".join(f"'{word}'" for word in ("rankwolf", *words))
        ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _rankwolf; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run([bash, "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    assert complete("dec") == ["decompose"]
    assert complete("") == [
        "demo",
        "separate",
        "decompose",
        "recover",
        "path",
        "score",
        "completion",
        "--help",
        "--version",
    ]
    assert complete("decompose", "--max-") == ["--max-memory", "--max-seconds", "--max-iter"]
    assert complete("decompose", "--implicit", "") == ["missing", "zeros"]
    assert complete("decompose", "--format", "xl") == ["xlsx"]
    assert complete("completion", "")[:3] == ["bash", "zsh", "fish"]
    assert complete("decompose", "-o", "") == []  # the shell's own: names of files


def test_completion_in_other_shells(capsys):
    for shell in ("zsh", "fish"):
        assert main(["completion", shell]) == 0
        script = capsys.readouterr().out
        assert f"completion {'fish' if shell == 'fish' else 'bash'} --for" in script
        if (program := shutil.which(shell)) is not None:
            subprocess.run([program, "-n", "-c", script], check=True)
    assert main(["completion", "fish", "--for", "decompose", "--impl"]) == 0
    assert capsys.readouterr().out.startswith("--implicit\twhat a sparse matrix does not store")
    assert main(["completion", "fish", "--for", "decompose", "--implicit", ""]) == 0
    assert capsys.readouterr().out == "missing\t\nzeros\t\n"
