"""Packages that are extras: imported where they are needed, and named with their extra where they are missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

# Which extra brings a package. Those with a name of their own are installed by that name.
EXTRAS = {
    module: extra
    for extra, modules in {
        "report": ("matplotlib", "rich", "jinja2"),
        "video": ("av", "PIL"),
        "sklearn": ("sklearn",),
        "dask": ("dask", "distributed"),
        "io": ("h5py", "zarr", "pyarrow", "pandas", "openpyxl"),
        "mri": ("finufft",),
    }.items()
    for module in modules
}


def needed(name: str) -> Any:
    """The module, imported; a ModuleNotFoundError of one line with the remedy where its package is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise missing(package) from error


def is_installed(package: str) -> bool:
    """Whether a package can be found; it is not imported."""
    try:
        return find_spec(package) is not None
    except ValueError:  # it was taken out of the list of modules
        return False


def require(*packages: str, extra: str | None = None) -> None:
    """A ModuleNotFoundError that names all of these that are not installed, before any work is done.

    ``extra``: the one that brings all of them.
    """
    absent = [package for package in packages if not is_installed(package)]
    if absent:
        raise missing(*absent, extra=extra)


def missing(*packages: str, extra: str | None = None) -> ModuleNotFoundError:
    """What to say where these are not installed: their extras, or their names where they are of no extra of ours."""
    extras = {extra} if extra else {EXTRAS[package] for package in packages if package in EXTRAS}
    others = [] if extra else [package for package in packages if package not in EXTRAS]
    words = [f"'rankwolf[{','.join(sorted(extras))}]'"] if extras else []
    named = " and ".join(f"'{package}'" for package in packages)
    plural, them = ("s", "them") if len(packages) > 1 else ("", "it")
    remedy = f"Install {them} with: pip install {' '.join([*words, *others])}"
    return ModuleNotFoundError(f"This needs the package{plural} {named}. {remedy}", name=packages[0])
