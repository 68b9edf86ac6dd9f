"""``rankwolf completion``: scripts that make a shell complete commands, options and their values.

A script asks this command what may come next, so that it never grows old: ``rankwolf completion bash --for dec``.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

HOW = {
    "bash": 'eval "$(rankwolf completion bash)"  in ~/.bashrc',
    "zsh": 'eval "$(rankwolf completion zsh)"  in ~/.zshrc, after compinit',
    "fish": "rankwolf completion fish > ~/.config/fish/completions/rankwolf.fish",
}
# Where no words come back, the shell completes names of files.
BASH = """_rankwolf() {{
    COMPREPLY=($({command} completion bash --for "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null))
}}
complete -o default -F _rankwolf rankwolf
"""
SCRIPTS = {
    "bash": BASH,
    "zsh": "autoload -U +X bashcompinit && bashcompinit\n" + BASH,
    "fish": "complete -c rankwolf -a "
    "'({command} completion fish --for (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'\n",
}


def add_parser(subparsers: Any) -> None:
    """The options of ``rankwolf completion``."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script that makes a shell complete commands and options",
        description="Print a script for a shell. "
        + " | ".join(f"{name}: {how}" for name, how in HOW.items()),
    )
    parser.add_argument("shell", choices=tuple(HOW), help="which shell")
    parser.add_argument("--for", dest="typed", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Print the script for ``arguments.shell``, or the words that fit the last one of ``--for``; returns 0."""
    if arguments.typed is None:
        command = f"{shlex.quote(sys.executable)} -m rankwolf"
        print(f"# rankwolf: {HOW[arguments.shell]}")
        print(SCRIPTS[arguments.shell].format(command=command), end="")
        return 0
    from rankwolf.cli.main import build_parser, find_commands

    *before, last = arguments.typed or [""]
    for word, what in candidates(build_parser(find_commands()), before).items():
        if word.startswith(last):
            print(f"{word}\t{what}" if arguments.shell == "fish" else word)
    return 0


def candidates(parser: argparse.ArgumentParser, before: list[str]) -> dict[str, str]:
    """The words that may come after ``before``, and what they mean; none where any word may come.

    argparse has no other way to ask than by its actions.
    """
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            if before and before[0] in action.choices:
                return candidates(action.choices[before[0]], before[1:])
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            return {**helps, "--help": "", "--version": ""}
    named = {name: action for action in parser._actions for name in action.option_strings}
    if before and before[-1] in named and named[before[-1]].nargs != 0:
        return dict.fromkeys(map(str, named[before[-1]].choices or ()), "")
    plain = [
        choice for action in parser._actions if not action.option_strings for choice in action.choices or ()
    ]
    shown = {name: action for name, action in named.items() if action.help != argparse.SUPPRESS}
    return dict.fromkeys(map(str, plain), "") | {
        name: (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
        for name, action in shown.items()
    }
