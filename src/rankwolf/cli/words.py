"""Messages of the library about its parameters, with the names of the options of the command line."""

from __future__ import annotations

import re

from rankwolf.ground.complaints import BadParameterError

# The option for each parameter that has one; messages about other parameters stay as the library words them.
OPTIONS = {"n_threads": "--threads", "rng": "--seed", "n_frames": "--frames"} | {
    name: "--" + name.replace("_", "-")
    for name in (
        "checkpoint checkpoint_every delta deltas implicit lambdas least_area max_iter max_memory max_rank max_seconds "
        "method noise radii radius rank samples start threshold tol weight"
    ).split()
}
# Only parameters whose names are no English words are replaced inside sentences.
_PARAMETERS = re.compile(
    r"(?<![\w'-])(delta|deltas|lambdas|tol|max_iter|max_rank|max_seconds|n_threads|max_memory|checkpoint_every)"
    r"(?:=|(?!\w))"
)


def in_options(text: str) -> str:
    """``text`` with the names of parameters replaced by those of the options.

    >>> in_options("Raise max_seconds or tol.")
    'Raise --max-seconds or --tol.'
    """
    text = text.replace(" (max_memory)", "")
    return _PARAMETERS.sub(lambda found: OPTIONS[found[1]], text)


def complaint(error: BadParameterError) -> str:
    """The message of ``error``, with the option, or "The input", in the place of the parameter that it is about.

    >>> complaint(BadParameterError("n_threads", "decompose", "must be a whole number. Got 0.5 instead."))
    '--threads must be a whole number. Got 0.5 instead.'
    """
    subject = "The input" if error.name in ("X", "path") else OPTIONS.get(error.name)
    return in_options(str(error) if subject is None else f"{subject} {error.words}")
