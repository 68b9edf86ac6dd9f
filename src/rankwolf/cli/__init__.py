"""The command line, the only place that prints. One file per command; see :mod:`rankwolf.cli.main` for the frame."""

from rankwolf.cli.main import main

__all__ = ["main"]
