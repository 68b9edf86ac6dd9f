"""``rankwolf completion``: scripts that make a shell complete commands, options and their values."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NamedTuple

SHELLS = ("bash", "zsh", "fish")
HOW = {
    "bash": 'eval "$(rankwolf completion bash)"  in ~/.bashrc',
    "zsh": 'eval "$(rankwolf completion zsh)"  in ~/.zshrc, after compinit',
    "fish": "rankwolf completion fish > ~/.config/fish/completions/rankwolf.fish",
}


def add_parser(subparsers: Any) -> None:
    """The options of ``rankwolf completion``."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script that makes a shell complete commands and options",
        description="Print a script for a shell. "
        + " | ".join(f"{name}: {how}" for name, how in HOW.items()),
    )
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script for ``arguments.shell``, made from the options that the commands have; returns 0."""
    from rankwolf.cli.main import build_parser, find_commands

    commands = commands_of(build_parser(find_commands()))
    print({"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell](commands), end="")
    return 0


class Option(NamedTuple):
    """``names`` as they are typed; ``values``: the words that may follow, empty for any word, None for none at all."""

    names: tuple[str, ...]
    values: tuple[str, ...] | None
    help: str


class Command(NamedTuple):
    """A command: ``help`` says what it is for, ``words`` are the values that its arguments without a name may have."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...]


def commands_of(parser: argparse.ArgumentParser) -> list[Command]:
    """The commands that ``parser`` has as subparsers, with their options, in its order."""
    actions = parser._actions  # argparse has no other way to ask
    subparsers = next(action for action in actions if isinstance(action, argparse._SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in subparsers._choices_actions}
    return [_command(name, helps.get(name, ""), sub) for name, sub in subparsers.choices.items()]


def _command(name: str, words: str, parser: argparse.ArgumentParser) -> Command:
    options: list[Option] = []
    plain: list[str] = []
    for action in parser._actions:
        choices = tuple(str(choice) for choice in action.choices or ())
        if action.option_strings:
            takes = action.nargs != 0
            text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
            options.append(Option(tuple(action.option_strings), choices if takes else None, text))
        else:
            plain += choices
    return Command(name, words, tuple(options), tuple(plain))


def bash(commands: list[Command]) -> str:
    """The script for bash; where it knows no options or values, it completes names of files."""
    names = " ".join(command.name for command in commands)
    cases = "".join(_bash_case(command) for command in commands)
    return f"""# rankwolf: {HOW["bash"]}
_rankwolf() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" options="" values=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{names} --help --version" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{cases}    esac
    if [ -n "$values" ]; then
        COMPREPLY=($(compgen -W "$values" -- "$word"))
    elif [[ "$word" == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _rankwolf rankwolf
"""


def _bash_case(command: Command) -> str:
    names = " ".join(name for option in command.options for name in option.names)
    lines = [f"    {command.name})", f'        options="{names}"']
    if command.words:
        lines.append(f'        values="{" ".join(command.words)}"')
    with_values = [option for option in command.options if option.values]
    if with_values:
        lines.append('        case "$before" in')
        lines += [
            f'        {"|".join(option.names)}) values="{" ".join(option.values or ())}";;'
            for option in with_values
        ]
        lines.append("        esac")
    return "\n".join([*lines, "        ;;", ""])


def zsh(commands: list[Command]) -> str:
    """The script for zsh: the one for bash, which zsh runs by ``bashcompinit``."""
    return f"# rankwolf: {HOW['zsh']}\nautoload -U +X bashcompinit && bashcompinit\n" + bash(commands)


def fish(commands: list[Command]) -> str:
    """The script for fish: one ``complete`` line for each command and each option."""
    lines = [f"# rankwolf: {HOW['fish']}", "complete -c rankwolf -n __fish_use_subcommand -l version"]
    for command in commands:
        lines.append(
            f"complete -c rankwolf -f -n __fish_use_subcommand -a {command.name} -d {shlex.quote(command.help)}"
        )
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            words = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
            if option.values is not None:
                words.append("-x -a " + shlex.quote(" ".join(option.values)) if option.values else "-r")
            words.append(f"-d {shlex.quote(option.help)}")
            lines.append(f"complete -c rankwolf {seen} {' '.join(words)}")
        if command.words:
            lines.append(f"complete -c rankwolf -f {seen} -a {shlex.quote(' '.join(command.words))}")
    return "\n".join(lines) + "\n"
