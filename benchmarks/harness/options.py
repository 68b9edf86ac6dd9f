"""The options of a script: what ``--help`` says is the text at the top of its file, as it stands there."""

from __future__ import annotations

import argparse


def options_of(about: str | None) -> argparse.ArgumentParser:
    """A parser without options yet, for the script that says ``about`` of itself."""
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
