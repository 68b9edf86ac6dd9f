"""What ``impute`` and ``score_cells`` give back: a table like the one that came in, or as ``set_output`` says."""

from __future__ import annotations

from typing import Any

from sklearn import get_config

from rankwolf.ground.arrays import Array
from rankwolf.ground.table_frame import Frame, PandasFrame, PolarsFrame


def dressed(model: Any, values: Array, frame: Frame | None) -> Any:
    """``values``, one for each cell of the table, as a table with its row and column names.

    Its type is the one that ``model.set_output(transform=...)`` or scikit-learn's global setting asks for; "default"
    asks for arrays. Where neither is set, it is the type of the input: a pandas or polars frame, a DataArray, an array.
    ``frame`` holds the names and type of the input, None for an array.
    """
    asked = vars(model).get("_sklearn_output_config", {}).get("transform")
    general = get_config()["transform_output"]
    wanted = asked or (None if general == "default" else general)
    if wanted is None:
        return values if frame is None else frame.table(values)
    if wanted == "default":
        return values
    names = [str(name) for name in vars(model).get("feature_names_in_", ())]
    names = names or [f"x{number}" for number in range(values.shape[1])]
    if wanted == "polars":
        return PolarsFrame(tuple(names)).table(values)
    return (frame or PandasFrame(None, names)).to_pandas(values)
