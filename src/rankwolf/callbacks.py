"""Ready-made callbacks, under the name that users know: :mod:`rankwolf.run.callbacks` has them and says what they do.

>>> from rankwolf.callbacks import LogTable, combine
>>> callback = combine(LogTable(), lambda record: record.seconds < 60.0)
"""

from __future__ import annotations

from rankwolf.run.callbacks import LogTable, ProgressBar, WithIterate, combine, describe

__all__ = ["LogTable", "ProgressBar", "WithIterate", "combine", "describe"]


def __dir__() -> list[str]:
    return sorted(__all__)
