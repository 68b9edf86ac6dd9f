"""Tables in ``.parquet`` files; and :func:`read_arrow`, which Feather files use too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.claims import Budget
from rankwolf.files.named_matrix import LabelledMatrix, Labels
from rankwolf.files.table_columns import (
    TableOptions,
    data_or_names,
    find_column,
    kept_columns,
    not_numbers,
    without_missing,
)
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed

# How many entries are decoded at a time.
BATCH_ENTRIES = 2**22

# batches(rows, names): record batches of about so many rows each, with the columns of these names (None: all columns).
Batches = Callable[[int, list[str] | None], Iterator[Any]]


def read_parquet(address: Address, budget: Budget, options: TableOptions) -> LabelledMatrix:
    """The matrix in a Parquet file, read some rows at a time. Nulls are missing."""
    pq = needed("pyarrow.parquet")
    with address.path.open("rb") as opened:
        file = pq.ParquetFile(opened)
        count = file.metadata.num_rows
        _check_row_groups(address, file.metadata, budget)

        def batches(rows: int, wanted: list[str] | None) -> Iterator[Any]:
            return iter(file.iter_batches(rows, columns=wanted))

        return read_arrow(address, budget, options, file.schema_arrow, count, batches, "parquet")


def read_arrow(
    address: Address,
    budget: Budget,
    options: TableOptions,
    schema: Any,
    count: int,
    batches: Batches,
    kind: str,
) -> LabelledMatrix:
    """The matrix in an Arrow table of ``count`` rows: its columns of numbers, with the names of rows and columns."""
    pa = needed("pyarrow")
    names = schema.names  # asked for once: pyarrow makes the list anew each time
    index = _index_column(address, schema, names, options.index)
    kept = kept_columns(address, names, index, options)
    _check_types(address, schema, kept)
    if count < 1:
        raise address.bad("it has no rows.")
    # A few bytes of run lengths can claim any number of rows.
    budget.check(address, 8 * count * len(kept), address.path.stat().st_size)
    single = all(schema.field(number).type == pa.float32() for number in kept)
    values = np.empty((count, len(kept)), np.float32 if single else np.float64)
    rows = _read(batches, names, kept, index, values)
    labels = Labels(tuple(names[number] for number in kept), rows, _index_name(names, index))
    keys = data_or_names(values, labels.columns or ())
    return LabelledMatrix(without_missing(values, options), kind, labels, keys=keys)


def _read(
    batches: Batches, names: list[str], kept: list[int], index: list[int], values: Array
) -> list[Any] | None:
    """Fill ``values`` with the columns ``kept``; returns the names of the rows, None without an index.

    All columns are read in one go over the file: reading one alone costs a search through all of their descriptions.
    """
    pa = needed("pyarrow")
    numbers = sorted([*kept, *index])
    if len(set(names)) < len(names):  # two columns have one name: read all, and choose by number
        wanted, numbers = None, list(range(len(names)))
    else:
        wanted = [names[number] for number in numbers]
    places = {number: place for place, number in enumerate(numbers)}
    rows: list[Any] | None = [] if index else None
    done = 0
    for batch in batches(max(1, BATCH_ENTRIES // len(numbers)), wanted):
        if done + batch.num_rows > values.shape[0]:
            raise ValueError("it has more rows than it says")
        part = values[done : done + batch.num_rows]
        for column, number in enumerate(kept):
            entries = batch.column(places[number]).cast(pa.float64())
            part[:, column] = entries.to_numpy(zero_copy_only=False)
        if rows is not None:
            rows += batch.column(places[index[0]]).to_pylist()
        done += batch.num_rows
    if done != values.shape[0]:
        raise ValueError(f"it has {done} rows and says {values.shape[0]}")
    return rows


def _check_types(address: Address, schema: Any, kept: list[int]) -> None:
    kinds = needed("pyarrow.types")
    numeric = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal)
    for number in kept:
        field = schema.field(number)
        if not any(is_numeric(field.type) for is_numeric in numeric):
            raise not_numbers(address, field.name, f"the type {field.type}")


def _check_row_groups(address: Address, metadata: Any, budget: Budget) -> None:
    """Check the uncompressed size that each column of each row group claims against the budget."""
    for group in range(metadata.num_row_groups):
        parts = metadata.row_group(group)
        for column in range(metadata.num_columns):
            part = parts.column(column)
            budget.check(address, part.total_uncompressed_size, max(part.total_compressed_size, 1))


def _index_column(address: Address, schema: Any, names: list[str], wanted: str) -> list[int]:
    """The number of the index column, in a list that is empty if there is none.

    "auto" takes the column that pandas marked as its index, else the first one if it holds words, categories or times.
    """
    pa = needed("pyarrow")
    if wanted == "none":
        return []
    if wanted != "auto":
        return [find_column(address, names, wanted)]
    try:
        marked = (schema.pandas_metadata or {}).get("index_columns", [])
    except ValueError:  # not JSON
        marked = []
    named = [name for name in marked if isinstance(name, str) and name in names]
    if named:
        return [names.index(named[0])]
    first = schema.field(0).type
    kinds = pa.types
    named_by = (
        kinds.is_string,
        kinds.is_large_string,
        kinds.is_string_view,
        kinds.is_dictionary,
        kinds.is_temporal,
    )
    return [0] if len(names) > 1 and any(is_kind(first) for is_kind in named_by) else []


def _index_name(names: list[str], index: list[int]) -> str | None:
    """The name of the index column, unless pandas made it up."""
    name = names[index[0]] if index else ""
    return None if not index or name.startswith("__index_level_") else name
