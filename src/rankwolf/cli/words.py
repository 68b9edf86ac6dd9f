"""What the library says about its parameters, in the words of the command line."""

from __future__ import annotations

import re

from rankwolf.ground.complaints import BadParameterError

# What a user types for a parameter; where it has no option, the library's own words stay.
OPTIONS = {"n_threads": "--threads", "rng": "--seed", "n_frames": "--frames"} | {
    name: "--" + name.replace("_", "-")
    for name in (
        "checkpoint checkpoint_every delta deltas implicit lambdas max_iter max_memory max_rank max_seconds method "
        "noise radii rank start tol vote weight"
    ).split()
}
# Parameters whose names are no words of ordinary prose.
_PARAMETERS = re.compile(
    r"(?<![\w'-])(delta|deltas|lambdas|tol|max_iter|max_rank|max_seconds|n_threads|max_memory|checkpoint_every)"
    r"(?:=|(?!\w))"
)


def in_options(text: str) -> str:
    """A sentence of the library in which the names of parameters are replaced by those of options.

    >>> in_options("Raise max_seconds or tol.")
    'Raise --max-seconds or --tol.'
    """
    text = text.replace(" (max_memory)", "")
    return _PARAMETERS.sub(lambda found: OPTIONS[found[1]], text)


def complaint(error: BadParameterError) -> str:
    """What an error says about a parameter, said of the option or the input that the user gave.

    >>> complaint(BadParameterError("n_threads", "decompose", "must be a whole number. Got 0.5 instead."))
    '--threads must be a whole number. Got 0.5 instead.'
    """
    subject = "The input" if error.name in ("X", "path") else OPTIONS.get(error.name)
    return in_options(str(error) if subject is None else f"{subject} {error.words}")
