"""The tables that people have: compressed, from spreadsheets, in other alphabets, with commas and odd marks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rankwolf.files import TableOptions, read_matrix
from rankwolf.files.tables import Dialect, decimal_of, find_dialect, number_of


def table():
    """Numbers of all sizes, a name that is not ASCII, and a column of days that names the rows."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.round(1000.0 * rng.standard_normal((20, 3)), 3), columns=["Größe", "b", "c"])
    frame.insert(0, "day", pd.date_range("2024-01-01", periods=20).strftime("%Y-%m-%d"))
    return frame


def check(matrix, frame=None):
    frame = table() if frame is None else frame
    assert list(matrix.labels.columns) == frame.columns[1:].tolist()
    assert list(map(str, matrix.labels.index)) == frame["day"].tolist()
    np.testing.assert_allclose(matrix.values, frame.iloc[:, 1:].to_numpy(np.float64), rtol=1e-14)


WRITTEN = {
    "plain.csv": ({}, []),
    "packed.csv.gz": ({}, []),
    "packed.tsv.gz": ({"sep": "\t"}, []),
    "semicolons.csv": ({"sep": ";"}, ["semicolons"]),
    "tabs.txt": ({"sep": "\t"}, ["tabs"]),
    "bars.txt": ({"sep": "|"}, ["bars"]),
    "spaces.txt": ({"sep": " "}, ["spaces"]),
    "commas.tsv": ({}, ["commas"]),
    "european.csv": ({"sep": ";", "decimal": ","}, ["semicolons", "Decimal commas"]),
    "european.txt": ({"sep": "\t", "decimal": ","}, ["tabs", "Decimal commas"]),
    "latin.csv": ({"encoding": "latin-1"}, ["Latin-1"]),
    "utf16.csv": ({"encoding": "utf-16"}, ["UTF-16"]),
    "utf16-without-mark.csv": ({"encoding": "utf-16-le"}, ["UTF-16"]),
    "utf16-big.csv.gz": ({"encoding": "utf-16-be"}, ["UTF-16"]),
    "marked.csv": ({"encoding": "utf-8-sig"}, []),
    "old-mac.csv": ({"lineterminator": "\r"}, []),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_texts_of_all_sorts(name, tmp_path):
    settings, words = WRITTEN[name]
    table().to_csv(tmp_path / name, index=False, **settings)
    matrix = read_matrix(tmp_path / name)
    check(matrix)
    assert len(matrix.notes) == len(words), matrix.notes
    for note, word in zip(matrix.notes, words, strict=True):
        assert word in note and ("assumed" in note or "separated" in note)


def test_the_windows_alphabet_is_read_as_such(tmp_path):
    (tmp_path / "a.csv").write_bytes("price in €,b\n1,2\n3,4\n".encode("cp1252"))
    assert read_matrix(tmp_path / "a.csv").labels.columns == ("price in €", "b")


def thousands(value, mark, decimal):
    return f"{value:,.2f}".translate(str.maketrans({",": mark, ".": decimal}))


@pytest.mark.parametrize(
    ("mark", "decimal", "separator"),
    [
        (",", ".", ","),
        (",", ".", ";"),
        (".", ",", ";"),
        ("'", ".", ","),
        (" ", ",", ";"),
        ("\u202f", ",", "\t"),
    ],
)
def test_thousands(mark, decimal, separator, tmp_path):
    frame = table()
    frame["b"], frame["c"] = 1e3 * frame["b"].round(2), frame["c"].round(2)
    text = frame.copy()
    text["b"] = [thousands(value, mark, decimal) for value in frame["b"]]
    text["c"] = [f"{value:.2f}".replace(".", decimal) for value in frame["c"]]
    text["Größe"] = [str(value).replace(".", decimal) for value in frame["Größe"]]
    text.to_csv(tmp_path / "a.csv", index=False, sep=separator)
    check(read_matrix(tmp_path / "a.csv"), frame)


def test_numbers_of_cells():
    cases = {
        ("1.234,5", ","): 1234.5, ("1,234.5", "."): 1234.5, ("-1,234", "."): -1234.0, ("1,234", ","): 1.234,
        ("12 500", "."): 12500.0, ("1e-3", "."): 1e-3, ("2,5E+3", ","): 2500.0, ("+.5", "."): 0.5, ("inf", "."): np.inf,
    }  # fmt: skip
    for (text, decimal), number in cases.items():
        assert number_of(text, decimal) == number, text
    for text in ("1,5", "1,23,456", "12,34", "1.2.3", "0x10", "1_000", "five", "2020-01-01", "1e", "٣"):
        assert number_of(text, ".") is None, text
    for text in ("", " ", "NA", "n/a", "N/A", "NaN", "-", "--", "?", "null", "None", "#N/A", "."):
        assert np.isnan(number_of(text, ".")), text


def test_a_comma_is_decimal_where_it_cannot_be_anything_else():
    assert decimal_of(["1,5", "2"], ";") == ","
    assert decimal_of(["0,125"], "\t") == ","
    assert decimal_of(["1,234.5", "2,345"], ";") == "."
    assert decimal_of(["1,234", "1.5"], ";") == "."
    assert decimal_of(["1,234", "2,345"], ";") == ","  # as spreadsheets write it
    assert decimal_of(["1,234", "2,345"], "\t") == "."
    assert decimal_of(["name, first", "2.5"], ";") == "."


def test_separators_are_those_that_give_numbers():
    assert find_dialect(["a,b", "1,2", "3,4"], "\t", None) == Dialect(",")
    assert find_dialect(["x;y,z", "1;2,5", "3;4,5"], ",", None) == Dialect(";", ",")
    assert find_dialect(["a, b,c", '"u;v",1,2', '"w;x",3,4'], ",", None) == Dialect(",")
    assert find_dialect(["1.5  2.5", "  3 4"], ",", None) == Dialect(" ")
    assert find_dialect(["5", "6"], ",", None) == Dialect(",")
    assert find_dialect(["x;y", "1;2"], ",", ",") == Dialect(";", ",")


def test_missing_cells_and_how_to_add_words(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n1,-,?\nNA,2,n/a\n3,-999,lost\n4,5,--\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"column 'c' must hold numbers. It holds 'lost' in line 4"):
        read_matrix(path)
    matrix = read_matrix(path, options=TableOptions(missing=["-999", "Lost"]))
    expected = [[1, np.nan, np.nan], [np.nan, 2, np.nan], [3, np.nan, np.nan], [4, 5, np.nan]]
    np.testing.assert_array_equal(matrix.values, expected)
    frame = pd.DataFrame({"a": [1.0, -999.0], "b": [2, 3]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_feather(tmp_path / "a.feather")
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    for kind in ("parquet", "feather", "xlsx"):
        read = read_matrix(tmp_path / f"a.{kind}", options=TableOptions(missing=["-999"])).values
        np.testing.assert_array_equal(read, [[1, 2], [np.nan, 3]])


def test_keys_that_are_treated_as_data_are_named(tmp_path):
    frame = table().drop(columns="day")
    frame["id"], frame["year"] = range(100, 120), range(2000, 2020)
    frame["customerId"] = np.random.default_rng(0).permutation(20) * 7
    frame["count"], frame["valid"], frame["idle"] = 3, range(0, 40, 2), frame["b"]
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    for name in ("a.csv", "a.parquet", "a.xlsx"):
        assert read_matrix(tmp_path / name).keys == ("id", "year", "customerId")
        used = read_matrix(tmp_path / name, options=TableOptions("id", drop=["year", "customerId"]))
        assert used.keys == () and list(map(str, used.labels.index)) == [str(k) for k in range(100, 120)]


def test_columns_are_chosen_in_every_kind_of_table(tmp_path):
    table().to_csv(tmp_path / "a.csv.gz", index=False)
    table().to_feather(tmp_path / "a.feather")
    table().to_excel(tmp_path / "a.xlsx", index=False)
    for name in ("a.csv.gz", "a.feather", "a.xlsx"):
        matrix = read_matrix(tmp_path / name, options=TableOptions(index="day", columns=["c", "Größe"]))
        assert matrix.labels.columns == ("c", "Größe") and matrix.labels.index_name == "day"
        np.testing.assert_allclose(matrix.values, table()[["c", "Größe"]], rtol=1e-14)
        with pytest.raises(ValueError, match=r"no column 'nope'. It has 'day', 'Größe', 'b', 'c'"):
            read_matrix(tmp_path / name, options=TableOptions(columns=["nope"]))
        with pytest.raises(ValueError, match=r"no column 'b, c'.* Several are given as b c\.$"):
            read_matrix(tmp_path / name, options=TableOptions(columns=["b, c"]))
    np.savetxt(tmp_path / "a.txt", table().iloc[:, 1:])  # without a heading: by number
    matrix = read_matrix(tmp_path / "a.txt", options=TableOptions("1", columns=["2", "column 0"]))
    np.testing.assert_allclose(matrix.values, table()[["c", "Größe"]], rtol=1e-14)
    with pytest.raises(ValueError, match=r"no column 'column 3'. It has 'column 0', 'column 1', 'column 2'"):
        read_matrix(tmp_path / "a.txt", options=TableOptions(drop=["3"]))
    np.save(tmp_path / "a.npy", np.eye(3))
    with pytest.raises(ValueError, match="--columns is for tables with names, and a NumPy array has none"):
        read_matrix(tmp_path / "a.npy", options=TableOptions(columns=["a"]))


@pytest.mark.parametrize(("top", "line"), [("a,b\n1,2\n", 4), ("\n\na,b\n1,2\n", 6), ("7,8\n1,2\n", 4)])
def test_a_row_with_more_cells_than_the_others_is_named_by_its_line(top, line, tmp_path):
    (tmp_path / "a.csv").write_text(top + "3,4\n5,6,7\n8,9\n")
    with pytest.raises(
        ValueError, match=rf"'.*a\.csv': its line {line} has 3 cells, and those above have 2\.$"
    ):
        read_matrix(tmp_path / "a.csv")


def test_a_spreadsheet_as_people_have_it(tmp_path):
    path = tmp_path / "book.xlsx"
    days = table().assign(day=pd.date_range("2024-01-01", periods=20))
    with pd.ExcelWriter(path) as book:
        days.to_excel(book, sheet_name="Daten", index=False, startrow=2)
        pd.DataFrame({"x": [1, 2], "y": ["#N/A", 4]}).to_excel(book, sheet_name="Other one", index=False)
        pd.DataFrame({"x": [1.5, 2.0], "when": days["day"][:2]}).to_excel(
            book, sheet_name="Dates", index=False
        )
    matrix = read_matrix(path)
    check(matrix)
    assert matrix.notes == ("The first of 3 sheets was read, 'Daten'. Name another as FILE::SHEET.",)
    np.testing.assert_array_equal(read_matrix(f"{path}::Other one").values, [[1, np.nan], [2, 4]])
    with pytest.raises(ValueError, match=r"column 'when' must hold numbers. It holds '2024-01-01' in row 2"):
        read_matrix(f"{path}::Dates")
    with pytest.raises(ValueError, match=r"no sheet of that name. It holds 'Daten'"):
        read_matrix(f"{path}::Nope")


def test_formulas_are_values_and_names_are_never_formulas(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    from rankwolf.files import LabelledMatrix, Labels, write_rows

    book = openpyxl.Workbook()
    for row in (["a", "b"], [1, "=1+1"], [2, 5]):
        book.active.append(row)
    book.save(tmp_path / "formula.xlsx")  # without a value that was computed before: nothing to read
    np.testing.assert_array_equal(read_matrix(tmp_path / "formula.xlsx").values, [[1, np.nan], [2, 5]])
    like = LabelledMatrix(np.eye(2), "npy", Labels(("=cmd()", "b"), ["+1", "x"], "n"))
    path = write_rows(tmp_path, "out", "xlsx", np.eye(2), like, lambda rows: None)
    sheet = openpyxl.load_workbook(path).active
    assert [cell.data_type for cell in sheet[1]] == ["s", "s", "s"] and sheet["B1"].value == "=cmd()"
