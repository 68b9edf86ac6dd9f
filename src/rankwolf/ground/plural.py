"""Numbers of things in sentences: one outlier, two outliers."""

from __future__ import annotations


def number_of(count: int, one: str, many: str | None = None) -> str:
    """The count, with commas, and its noun: ``one`` for 1, else ``many``, by default ``one`` with an s.

    >>> number_of(1, "outlier"), number_of(1200, "outlier"), number_of(0, "pass", "passes")
    ('1 outlier', '1,200 outliers', '0 passes')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
