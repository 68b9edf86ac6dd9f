"""Packages that are extras: imported where they are needed, and named with their extra where they are missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

# Which extra brings a package. A package that is not here is installed by its own name.
EXTRAS = {
    module: extra
    for extra, modules in {
        "report": ("matplotlib", "rich", "jinja2"),
        "video": ("av", "PIL"),
        "sklearn": ("sklearn",),
        "dask": ("dask", "distributed"),
        "io": ("h5py", "zarr", "pyarrow", "pandas", "openpyxl"),
        "mri": ("finufft", "nibabel"),
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
    except ValueError:  # something put it among the modules without a spec
        return False


def require(*packages: str, extra: str | None = None) -> None:
    """Raise a ModuleNotFoundError that names all ``packages`` that are not installed; to be called before any work.

    ``extra``: the extra that the remedy names, where one brings all of them.
    """
    absent = [package for package in packages if not is_installed(package)]
    if absent:
        raise missing(*absent, extra=extra)


def missing(*packages: str, extra: str | None = None) -> ModuleNotFoundError:
    """The error to raise for packages that are not installed; its remedy is the pip command that installs them."""
    extras = {extra} if extra else {EXTRAS[package] for package in packages if package in EXTRAS}
    others = [] if extra else [package for package in packages if package not in EXTRAS]
    words = [f"'rankwolf[{','.join(sorted(extras))}]'"] if extras else []
    named = " and ".join(f"'{package}'" for package in packages)
    plural, them = ("s", "them") if len(packages) > 1 else ("", "it")
    remedy = f"Install {them} with: pip install {' '.join([*words, *others])}"
    return ModuleNotFoundError(f"This needs the package{plural} {named}. {remedy}", name=packages[0])
