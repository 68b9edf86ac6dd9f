"""Tables in, tables out: names of rows and columns survive, dates and words never become numbers."""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.data.labelled import chosen_columns

pd = pytest.importorskip("pandas")
NAMES = list("abcdefgh")


def numbers():
    """Rank 2, noise, one outlier, one gap."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 8)) + 0.05 * rng.standard_normal((60, 8))
    data[3, 4] += 10.0
    data[5, 6] = np.nan
    return data


def frame():
    return pd.DataFrame(numbers(), index=pd.date_range("2020-01-01", periods=60, name="day"), columns=NAMES)


def test_pandas_comes_back_as_pandas():
    table = frame()
    fit = rw.decompose(table, rng=0)
    for part in (fit.low_rank, fit.sparse, fit.refit().low_rank, fit.refit().sparse):
        made = part.to_frame()
        assert made.index.equals(table.index) and made.columns.equals(table.columns)
        np.testing.assert_array_equal(made.to_numpy(), np.asarray(part))
    assert fit.sparse.to_frame().loc["2020-01-04", "e"] > 8.0
    # A wide table is turned on the way to the solver and back.
    assert rw.decompose(table.T, rng=0).low_rank.to_frame().index.tolist() == NAMES


@pytest.mark.doubts("low-rank part is zero")
def test_polars_comes_back_as_polars():
    pl = pytest.importorskip("polars")
    table = pl.DataFrame(numbers(), schema=NAMES).with_columns(flag=pl.col("a") > 0, whole=pl.lit(3))
    fit = rw.decompose(table, rng=0)
    made = fit.low_rank.to_frame()
    assert isinstance(made, pl.DataFrame)
    assert made.columns == [*NAMES, "flag", "whole"]
    np.testing.assert_array_equal(made.to_numpy(), np.asarray(fit.low_rank))
    left = fit.low_rank - table.cast(pl.Float64)
    assert isinstance(left, pl.DataFrame) and left.columns == made.columns
    np.testing.assert_array_equal(left.to_numpy(), made.to_numpy() - table.cast(pl.Float64).to_numpy())


def test_xarray_keeps_dimensions_and_coordinates():
    xr = pytest.importorskip("xarray")
    days = pd.date_range("2020-01-01", periods=60)
    coords = {"time": days, "sensor": NAMES, "height": ("sensor", np.arange(8.0))}
    array = xr.DataArray(numbers(), coords, ("time", "sensor"), "temperature", {"units": "K"})
    low_rank, sparse = rw.decompose(array, rng=0)
    for part in (low_rank, sparse):
        made = part.to_xarray()
        assert made.dims == ("time", "sensor")
        assert set(made.coords) == {"time", "sensor", "height"}
        assert made.name == "temperature" and made.attrs == {"units": "K"}
        np.testing.assert_array_equal(made.values, np.asarray(part))
    assert low_rank.to_frame().index.name == "time"
    assert (array - low_rank).dims == ("time", "sensor")
    stacked = xr.DataArray(numbers().reshape(60, 2, 4), dims=("time", "y", "x"))
    with pytest.raises(ValueError, match=r"two-dimensional.*'time', 'y', 'x'.*stack"):
        rw.decompose(stacked)
    back = rw.decompose(stacked.stack(pixel=("y", "x")), rng=0).low_rank.to_xarray().unstack("pixel")
    assert back.sizes == {"time": 60, "y": 2, "x": 4}
    with pytest.raises(ValueError, match="'temperature'"):
        rw.decompose(array.to_dataset())


def test_xarray_on_dask_stays_there():
    xr, da = pytest.importorskip("xarray"), pytest.importorskip("dask.array")
    import dask

    array = xr.DataArray(da.from_array(np.nan_to_num(numbers()), chunks=(20, 8)), dims=("time", "sensor"))
    with dask.config.set(scheduler="synchronous"):
        fit = rw.decompose(array, rng=0, delta=0.01)
        assert type(fit.source).__name__ == "OnDask"
        assert fit.low_rank.to_xarray().dims == ("time", "sensor")


def test_names_are_saved_with_a_result(tmp_path):
    xr, pl = pytest.importorskip("xarray"), pytest.importorskip("polars")
    table = frame()
    levels = [pd.date_range("2020", periods=6), [f"b{k}" for k in range(10)]]
    several = table.set_axis(pd.MultiIndex.from_product(levels, names=["day", None]))
    arrays = {"day": table.index, "number": np.arange(8)}
    for data in (
        table,
        table.reset_index(drop=True),
        several,
        pl.DataFrame(np.nan_to_num(numbers()), schema=NAMES),
    ):
        fit = rw.decompose(data, rng=0)
        fit.save(tmp_path / "fit.npz")
        again = rw.load(tmp_path / "fit.npz")
        made, expected = again.sparse.to_frame(), fit.sparse.to_frame()
        assert list(made.columns) == list(expected.columns) and type(made) is type(expected)
        if isinstance(data, pd.DataFrame):
            assert made.index.equals(expected.index) and made.index.names == expected.index.names
            assert made.index.dtype == expected.index.dtype and made.index.nlevels == expected.index.nlevels
            again.save(tmp_path / "twice.npz")  # a result that was loaded
            pd.testing.assert_frame_equal(rw.load(tmp_path / "twice.npz").sparse.to_frame(), made)
    fit = rw.decompose(xr.DataArray(numbers(), arrays, ("day", "number")), rng=0)
    fit.save(tmp_path / "fit.npz", with_sparse=False)
    made = rw.load(tmp_path / "fit.npz").low_rank.to_xarray()
    assert made.dims == ("day", "number") and (made["day"].values == table.index.values).all()


@pytest.mark.doubts("low-rank part is zero")
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("[]", "are none"),
        ('{"library": "os"}', "are none"),
        ('{"library": "pandas", "rows": {"names": ["a"]}}', "names are not 30"),
        ('{"library": "pandas", "rows": {"names": 3}}', "names are not 30"),
        ('{"library": "pandas", "columns": {"names": [[], [], [], []]}}', "not words or numbers"),
        ('{"library": "pandas", "columns": {"dates": true, "names": ["x", "x", "x", "x"]}}', "damaged"),
        ('{"library": "pandas", "columns": {"dates": [], "names": [1, 2, 3, 4]}}', "unit of its dates"),
        ('{"library": "pandas", "columns": {"dates": "Y", "names": [1, 2, 3, 4]}}', "unit of its dates"),
        ('{"library": "pandas", "rows": {"levels": []}}', "not 1 to 16 levels"),
        ('{"library": "pandas", "rows": {"levels": [{"names": ["a"]}]}}', "names are not 30"),
        ('{"library": "pandas", "columns": {"names": [1, 2, 3, 4], "title": 5}}', "not a word"),
        ('{"library": "xarray", "dims": ["a"]}', "not two"),
        ("nonsense", "damaged"),
    ],
)
def test_names_from_strangers(labels, words, tmp_path):
    rw.decompose(np.eye(30, 4), delta=0.1, rng=0).save(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "a.npz") as old, zipfile.ZipFile(tmp_path / "b.npz", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "settings.json":
                data = json.dumps({**json.loads(data), "labels": labels}).encode()
            new.writestr(name, data)
    with pytest.raises(ValueError, match=words):
        rw.load(tmp_path / "b.npz")


def test_tables_of_arrow_and_of_odd_types():
    pa = pytest.importorskip("pyarrow")
    plain = np.asarray(rw.decompose(frame(), rng=0).low_rank)
    tables = [frame().convert_dtypes(), frame().astype(object), frame().astype("Float64"), pa.table(frame())]
    for table in tables:
        fit = rw.decompose(table, rng=0)
        np.testing.assert_array_equal(np.asarray(fit.low_rank), plain)
        assert fit.low_rank.to_frame().columns.tolist()[:8] == NAMES


def test_parts_behave_like_matrices():
    data = numbers()
    fit = rw.decompose(frame(), rng=0)
    low_rank, sparse = fit
    assert low_rank is fit.low_rank and sparse is fit.sparse
    dense, rest = np.asarray(low_rank), np.asarray(sparse)
    for part, array in ((low_rank, dense), (sparse, rest)):
        assert len(part) == 60 and part.ndim == 2 and part.size == 480
        np.testing.assert_array_equal(part.toarray(), array)
        np.testing.assert_array_equal(pd.DataFrame(part).to_numpy(), array)
        np.testing.assert_allclose(np.array(list(part)), array, atol=1e-12)
        np.testing.assert_array_equal(np.abs(part), np.abs(array))
        np.testing.assert_array_equal(abs(part), np.abs(array))
        np.testing.assert_array_equal(-part, -array)
        np.testing.assert_array_equal(2.0 * part / 4.0, array / 2.0)
        assert np.sum(part) == np.sum(array)
        np.testing.assert_allclose(np.ones(60) @ part, array.sum(axis=0), atol=1e-10)
        np.testing.assert_allclose(part @ np.ones(8), array.sum(axis=1), atol=1e-10)
        np.testing.assert_array_equal(part != 0, array != 0)
        np.testing.assert_array_equal(part**2 >= 1.0, array**2 >= 1.0)
        assert len({part, part}) == 1
    np.testing.assert_array_equal(low_rank + sparse, dense + rest)
    np.testing.assert_array_equal(sparse + low_rank, dense + rest)
    np.testing.assert_array_equal(data - low_rank - sparse, data - dense - rest)
    left = frame() - low_rank
    assert isinstance(left, pd.DataFrame) and left.columns.tolist() == NAMES
    np.testing.assert_array_equal((low_rank - frame()).to_numpy(), dense - data)
    assert fit != rw.decompose(frame(), rng=0)  # results are compared by identity
    # The product of factors, without the dense matrix.
    np.testing.assert_allclose(np.matmul(np.eye(60), low_rank), dense, atol=1e-12)


def odd_columns():
    return {
        "when": (pd.date_range("2021", periods=60), "dates (datetime64"),
        "took": (pd.to_timedelta(np.arange(60), unit="s"), "durations (timedelta64"),
        "city": ("Rome", "words ("),
        "kind": (pd.Categorical(["u"] * 60), "categories (category)"),
        "born": ([datetime.date(2020, 1, 1)] * 60, "dates (date)"),
        "mixed": ([1.5] * 59 + ["x"], "words ('x')"),
        "month": (pd.period_range("2020", periods=60, freq="M"), "the type period"),
        "wave": (1j, "complex numbers"),
    }


@pytest.mark.parametrize("name", list(odd_columns()))
def test_what_is_no_number_is_an_error_that_names_the_column(name):
    values, words = odd_columns()[name]
    table = frame()
    table[name] = values
    for call, where in ((rw.decompose, "decompose"), (rw.select_delta, "select_delta")):
        with pytest.raises(ValueError) as caught:
            call(table)
        assert f"The 'X' parameter of {where} must be a table of numbers in every column. Got {words}" in str(
            caught.value
        )
        assert f"in column '{name}' instead" in str(caught.value)
        assert "columns='numeric'" in str(caught.value)
    with pytest.raises(ValueError, match=f"in column '{name}'"):
        rw.RobustPCA().fit(table)
    assert rw.decompose(table, columns="numeric", rng=0).low_rank.to_frame().columns.tolist() == NAMES


def test_dates_alone_are_not_nanoseconds():
    days = pd.date_range("2020", periods=9)
    for table in (pd.DataFrame({"a": days, "b": days}), pd.DataFrame({"a": days - days[0]})):
        for fit in (rw.decompose, rw.RobustPCA().fit):
            with pytest.raises(ValueError, match="in column 'a'"):
                fit(table)
    with pytest.raises(ValueError, match=r"datetime64"):
        rw.decompose(np.array([days, days]))


def test_dates_of_polars_are_an_error_too():
    pl = pytest.importorskip("polars")
    table = pl.DataFrame(np.nan_to_num(numbers()), schema=NAMES).with_columns(
        day=pl.lit(datetime.date(2020, 1, 1)), took=pl.lit(datetime.timedelta(1)), city=pl.lit("Rome")
    )
    message = r"dates \(Date\) in column 'day', durations \(.*\) in column 'took', words \(String\) in column 'city'"
    with pytest.raises(ValueError, match=message):
        rw.decompose(table)
    assert rw.decompose(table, columns="numeric", rng=0).low_rank.to_frame().columns == NAMES
    with pytest.raises(ValueError, match=r"X\.collect\(\)"):
        rw.decompose(table.lazy())


def test_columns_are_chosen():
    table = frame()
    chosen = rw.decompose(table, columns=["c", "a", "b"], rng=0).low_rank.to_frame()
    assert chosen.columns.tolist() == ["c", "a", "b"]
    for columns, words in (
        (["nope"], "Got the name 'nope'"),
        ("a", "'all', 'numeric', or a list of names"),
        ([], "Got none"),
        (3, "'all', 'numeric', or a list of names"),
    ):
        with pytest.raises(ValueError, match=words):
            rw.decompose(table, columns=columns)
    with pytest.raises(ValueError, match="without names of columns"):
        rw.decompose(numbers(), columns="numeric")
    with pytest.raises(ValueError, match=r"given once each\. Got the name 'a' twice"):
        rw.decompose(table, columns=["a", "b", "a"])
    twice = pd.concat([table, table[["a"]]], axis=1)  # two columns of one name
    assert rw.decompose(twice, rng=0).low_rank.to_frame().columns.tolist() == [*NAMES, "a"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_all_columns_in_another_order_are_in_that_order(library):
    table = frame() if library == "pandas" else pytest.importorskip("polars").from_pandas(frame())
    turned = NAMES[::-1]
    fit = rw.decompose(table, columns=turned, rng=0)
    assert list(fit.low_rank.to_frame().columns) == turned
    np.testing.assert_array_equal(fit.low_rank, rw.decompose(numbers()[:, ::-1].copy(), rng=0).low_rank)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_thousands_of_columns_take_no_time(library):
    """Looking up each type or name among all the others took minutes."""
    table = pytest.importorskip(library).DataFrame({f"gene {i}": [1.0, 2.0] for i in range(12_000)})
    start = time.perf_counter()
    assert chosen_columns(table) is table
    assert list(chosen_columns(table, list(table.columns)[::-1]).columns) == list(table.columns)[::-1]
    assert time.perf_counter() - start < 5.0
    with pytest.raises(ValueError, match=r"Got the name \['gene 1'\]"):
        chosen_columns(table, [["gene 1"]])


@pytest.mark.parametrize("function", [rw.decompose, rw.path, rw.select_delta])
def test_whoever_advises_columns_takes_them(function):
    table = frame().assign(when=pd.Timestamp("2020-01-01"))
    with pytest.raises(ValueError, match=f"parameter of {function.__name__} .*'when'.* columns='numeric'"):
        function(table)
    options = {} if function is rw.decompose else {"deltas": [0.1, 0.01]}
    seconds = re.compile(r"[\d.]+ s\b")
    alone = seconds.sub("", repr(function(frame()[NAMES[:4]], rng=0, **options)))
    for columns, given in (("numeric", table.drop(columns=NAMES[4:])), (NAMES[:4], table)):
        assert seconds.sub("", repr(function(given, columns=columns, rng=0, **options))) == alone


def test_arrays_have_numbered_tables():
    fit = rw.decompose(numbers(), rng=0)
    assert fit.low_rank.to_frame().columns.tolist() == list(range(8))
    assert fit.sparse.to_frame().shape == (60, 8)


def test_a_tensor_of_torch_is_taken():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    plain = np.asarray(rw.decompose(numbers(), rng=0).low_rank)
    for tensor in (torch.tensor(numbers()), torch.tensor(numbers(), requires_grad=True)):
        np.testing.assert_allclose(np.asarray(rw.decompose(tensor, rng=0).low_rank), plain, atol=1e-2)
        assert rw.RobustPCA(random_state=0).fit(tensor).n_components_ == 2
    rough = torch.tensor(numbers()).bfloat16()
    same = rw.decompose(rough.float(), rng=0).low_rank
    np.testing.assert_allclose(np.asarray(rw.decompose(rough, rng=0).low_rank), np.asarray(same), atol=1e-6)
    with pytest.raises(ValueError, match="a dense tensor"):
        rw.decompose(torch.eye(9).to_sparse())


def test_no_library_of_tables_is_imported_for_an_array():
    code = (
        "import sys, numpy as np, rankwolf as rw; rw.decompose(np.eye(5), max_iter=2);"
        "print([m for m in ('pandas', 'polars', 'xarray', 'pyarrow', 'torch', 'IPython') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_library_that_is_missing_is_named_with_its_remedy():
    code = (
        "import sys; sys.modules['pandas'] = None; sys.modules['xarray'] = None\n"
        "import numpy as np, rankwolf as rw\n"
        "L = rw.LowRank.zeros((2, 3))\n"
        "for make in (L.to_frame, L.to_xarray):\n"
        "    try: make()\n"
        "    except ModuleNotFoundError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "This needs the package 'pandas'. Install it with: pip install 'rankwolf[io]'",
        "This needs the package 'xarray'. Install it with: pip install xarray",
    ]
