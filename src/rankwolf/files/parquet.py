"""Tables in ``.parquet`` files."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.claims import Budget
from rankwolf.files.columns import TableOptions, find_column, kept_columns, not_numbers
from rankwolf.files.matrix import LabelledMatrix, Labels
from rankwolf.ground.arrays import Array

# Entries that are decoded at a time.
BATCH_ENTRIES = 2**22


def read_parquet(address: Address, budget: Budget, options: TableOptions) -> LabelledMatrix:
    """A Parquet file, some rows at a time. Nulls are missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with address.path.open("rb") as opened:
        file = pq.ParquetFile(opened)
        # Asked for once: pyarrow makes the schema, and the list of names, anew each time.
        schema, count = file.schema_arrow, file.metadata.num_rows
        names = schema.names
        index = _index_column(address, schema, names, options.index)
        kept = kept_columns(address, names, index, options.drop)
        _check_types(address, schema, kept)
        if count < 1:
            raise address.bad("it has no rows.")
        # Run lengths can promise any number of rows in a few bytes.
        budget.check(address, 8 * count * len(kept), address.path.stat().st_size)
        _check_row_groups(address, file.metadata, budget)
        single = all(schema.field(number).type == pa.float32() for number in kept)
        values = np.empty((count, len(kept)), np.float32 if single else np.float64)
        rows = _read(file, names, kept, index, values)
    labels = Labels(tuple(names[number] for number in kept), rows, _index_name(names, index))
    return LabelledMatrix(values, "parquet", labels)


def _read(file: Any, names: list[str], kept: list[int], index: list[int], values: Array) -> list[Any] | None:
    """All columns in one go over the file: by itself, each would cost a look at the whole directory of columns.

    Gives the names of the rows, where there is an index.
    """
    import pyarrow as pa

    numbers = sorted([*kept, *index])
    if len(set(names)) < len(names):  # a name would not tell which
        wanted, numbers = None, list(range(len(names)))
    else:
        wanted = [names[number] for number in numbers]
    places = {number: place for place, number in enumerate(numbers)}
    rows: list[Any] | None = [] if index else None
    done = 0
    for batch in file.iter_batches(max(1, BATCH_ENTRIES // len(numbers)), columns=wanted):
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
    import pyarrow.types as kinds

    numeric = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal)
    for number in kept:
        field = schema.field(number)
        if not any(is_numeric(field.type) for is_numeric in numeric):
            raise not_numbers(address, field.name, f"the type {field.type}")


def _check_row_groups(address: Address, metadata: Any, budget: Budget) -> None:
    """Hold the uncompressed sizes that the columns of each row group claim against the budget."""
    for group in range(metadata.num_row_groups):
        parts = metadata.row_group(group)
        for column in range(metadata.num_columns):
            part = parts.column(column)
            budget.check(address, part.total_uncompressed_size, max(part.total_compressed_size, 1))


def _index_column(address: Address, schema: Any, names: list[str], wanted: str) -> list[int]:
    """The column that pandas marked, or a first column that holds no numbers; in a list that may be empty."""
    import pyarrow as pa

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
    plain = pa.types.is_string(first) or pa.types.is_large_string(first) or pa.types.is_temporal(first)
    return [0] if plain and len(names) > 1 else []


def _index_name(names: list[str], index: list[int]) -> str | None:
    """The name of the index column, unless pandas made it up."""
    name = names[index[0]] if index else ""
    return None if not index or name.startswith("__index_level_") else name
