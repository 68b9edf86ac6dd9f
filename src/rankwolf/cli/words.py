"""What the library says about its parameters, in the words of the command line."""

from __future__ import annotations

import re

from rankwolf.ground.complaints import BadParameterError

# Options that are not called like the parameter.
OPTIONS = {"n_threads": "--threads", "rng": "--seed"}
# Parameters whose names are no words of ordinary prose.
_PARAMETERS = re.compile(
    r"(?<![\w'-])(delta|lambdas|radii|tol|max_iter|max_seconds|n_threads|max_memory|checkpoint_every)(?:=|(?!\w))"
)


def option_of(parameter: str) -> str:
    """What a user types for a parameter.

    >>> option_of("n_threads"), option_of("max_seconds")
    ('--threads', '--max-seconds')
    """
    return OPTIONS.get(parameter, "--" + parameter.replace("_", "-"))


def in_options(text: str) -> str:
    """A sentence for Python, for the shell.

    >>> in_options("Raise max_seconds or tol.")
    'Raise --max-seconds or --tol.'
    """
    text = text.replace(" (max_memory)", "")
    return _PARAMETERS.sub(lambda found: option_of(found[1]), text)


def complaint(error: BadParameterError) -> str:
    """A complaint about a parameter as one about the option or the input."""
    subject = "The input" if error.name in ("X", "path") else option_of(error.name)
    return f"{subject} {in_options(error.words)}"
