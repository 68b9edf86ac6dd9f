"""A property that is computed when it is first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class computed_once(Generic[T]):  # noqa: N801
    """``functools.cached_property`` without its lock, which Python 3.11 holds while the value is computed.

    If another thread forks the process meanwhile, the child inherits the held lock and would wait for it for ever.
    Without the lock, two threads that ask at the same moment may both compute the value; one of the two is kept.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        # Kept among the instance's attributes, where Python looks before it calls this method.
        return vars(instance).setdefault(self._name, self._compute(instance))  # type: ignore[no-any-return]
