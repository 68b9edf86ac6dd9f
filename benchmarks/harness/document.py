"""Writes ``docs/benchmarks.md`` from saved results: ``python -m benchmarks.harness.document``."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.harness import results
from benchmarks.harness.experiment import folder
from benchmarks.harness.machine import ROOT
from benchmarks.harness.results import Row, table
from benchmarks.paper import figure1
from benchmarks.scale import scaling
from benchmarks.speed import peers

EXPERIMENTS: tuple[ModuleType, ...] = (scaling, peers)
TARGET = ROOT / "docs" / "benchmarks.md"
INTRODUCTION = """# Benchmarks

Written by `python -m benchmarks.harness.document` from the results that `python -m benchmarks` saved; nothing here
is typed in by hand. One judge (`benchmarks/harness/judge.py`) evaluates every answer in float64 by plain NumPy, without
rankwolf's code; every run has a process of its own, with its threads pinned; kernels are compiled before the clock
starts. "met" and "missed" compare with the aims that the project set itself."""


def saved(module: ModuleType) -> Row | None:
    """The full selection's results if there are any, otherwise the quick one's."""
    return results.load(module.NAME, folder(True)) or results.load(module.NAME, folder(False))


def section(module: ModuleType, content: Row) -> str:
    """Title, what it is, the table, and what it was measured with."""
    text: str = module.report(content["rows"], content["settings"])
    return f"## {module.TITLE}\n\n{_prose(module)}\n\n{text}\n\n{_provenance(content)}"


def write(target: Path = TARGET) -> Path:
    """The whole page."""
    parts = [INTRODUCTION]
    for module in EXPERIMENTS:
        content = saved(module)
        if content is None:
            parts.append(f"## {module.TITLE}\n\nNot measured yet.")
            continue
        parts.append(section(module, content))
        if module is scaling and any("failure" not in row for row in content["rows"]):
            scaling.draw(content["rows"], target.parent / "figures" / "scaling.png")
            parts.append("![Seconds an iteration against frames](figures/scaling.png)")
    parts += [
        _paper_table("table2", "The paper's Table 2"),
        _paper_table("table1", "The paper's Table 1"),
        _figure1(target),
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n\n".join(parts) + "\n")
    return target


def _prose(module: ModuleType) -> str:
    return (module.__doc__ or "").strip()


def _provenance(content: Row) -> str:
    machine: dict[str, Any] = content["machine"]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    loads = [row["load_before"] for row in content["rows"] if row.get("load_before") is not None]
    busy = f" Load average before the runs: at most {max(loads):.1f}." if loads else ""
    # Typed into a results file by whoever knows of a disturbance that the load average does not show.
    busy += f" {content['remark']}" if content.get("remark") else ""
    threads = content["settings"].get("threads")
    return (
        f"*{content['started'][:10]}, commit {machine['commit']}, {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gb']} GB, {threads or 'all'} threads, seed {content['settings'].get('seed')}, "
        f"Python {machine['python']}, {libraries}.{busy}*"
    )


def _paper_table(name: str, title: str) -> str:
    content = results.load(name)
    if content is None:
        return f"## {title}\n\nNot measured yet: `python -m benchmarks {name}`."
    rows = content["rows"]
    words = {True: "", False: " (outside the tolerance)", None: ""}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = []
    for label, rho in dict.fromkeys((row["data"], row["rho"]) for row in rows):
        found = {row["method"]: row for row in rows if (row["data"], row["rho"]) == (label, rho)}
        cells = [
            f"{found[m]['paper']} / {found[m]['ours']}{words[found[m]['within']]}"
            if m in found
            else "left out"
            for m in methods
        ]
        lines.append([label, f"{rho:.1f}", *cells])
    head = table(["data", "ρ", *(f"{m.upper()}: paper / ours" for m in methods)], lines)
    return (
        f"## {title}\n\nIterations. FW-T stops by the paper's rule, the others where they reach its objective.\n\n"
        f"{head}\n\n{_provenance(content)}"
    )


def _figure1(target: Path) -> str:
    content = results.load("figure1")
    if content is None:
        return "## The paper's Figure 1\n\nNot measured yet: `python -m benchmarks figure1`."
    figure1.draw(content["rows"], target.parent / "figures" / "figure1.png")
    return (
        "## The paper's Figure 1\n\nFrank-Wolfe against FW-P on a synthetic 1000 × 1000 problem.\n\n"
        f"![Relative errors of L and S against the iteration](figures/figure1.png)\n\n{_provenance(content)}"
    )


if __name__ == "__main__":
    print(write())
