"""The command line, the only place that prints. One file for each command; :mod:`rankwolf.cli.main` is their frame.

A command reads its options, calls a function of another room, and turns errors into one line and an exit code. It
computes nothing, and imports nothing heavy before it has to.
"""

from rankwolf.cli.main import main

__all__ = ["main"]
