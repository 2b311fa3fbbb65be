"""Shell completion for bash, zsh and fish, rendered from the parsers.

The scripts are static: pressing TAB starts no program. Both bash and zsh walk the words that are typed already to the
command they name, and complete by three tables, which are `case` statements: subcommands and options of a command, values
of an option, values of positional arguments.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping

from neutrino.cli.documents.commands import Argument, Command, describe

FILES, DIRECTORIES = "@files", "@directories"  # in place of words: the shell completes paths

_WALK = """\
    for word in "${typed[@]}"; do
        if [ "$word" = = ]; then
            value=1
        elif [ -n "$value" ]; then
            value=
        else
            case "$at:$word" in
@steps@
            *:-*) ;;
            *) place=$((place + 1)) ;;
            esac
        fi
    done
    # After an option that takes a value, its values; else subcommands, positional arguments and options.
    if [ -n "$option" ] && [ -n "$value" ]; then
        case "$at:$option" in
@values@
        *) found= ;;
        esac
    else
        case "$at" in
@flags@
        esac
        case "$at:$place" in
@words@
        esac
        case "$current" in
        -*) found=$flags ;;
        *) [ -n "$found" ] || found=$flags ;;
        esac
    fi
"""

BASH = (
    """\
# bash completion for neutrino; made by `neutrino completion bash`.
_neutrino() {
    local at=neutrino place=0 value= option= found= flags= word current=${COMP_WORDS[COMP_CWORD]}
    local typed=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
    # bash makes "=" a word of its own: --option=value are three words.
    if [ "$current" = = ]; then
        current=
        typed+=(=)
    fi
"""
    + _WALK
    + """\
    case "$found" in
    @files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")) ;;
    @directories) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$found" -- "$current")) ;;
    esac
}
complete -F _neutrino neutrino
"""
)

ZSH = (
    """\
#compdef neutrino
# zsh completion for neutrino; made by `neutrino completion zsh`.
_neutrino() {
    local at=neutrino place=0 value= option= found= flags= word current="${words[CURRENT]}"
    local -a typed
    typed=("${(@)words[2,CURRENT-1]}")
    if [[ "$current" == --*=* ]]; then
        typed+=("${current%%=*}")
        compset -P '*='
        current="${current#*=}"
    fi
"""
    + _WALK
    + """\
    case "$found" in
    @files) _files ;;
    @directories) _files -/ ;;
    *) compadd -- ${(s: :)found} ;;
    esac
}
if [ "${funcstack[1]}" = _neutrino ]; then
    _neutrino "$@"
else
    compdef _neutrino neutrino
fi
"""
)


def completion(args: argparse.Namespace) -> None:
    """`neutrino completion SHELL`."""
    from neutrino.cli.main import build_parser

    print(render(args.shell, describe(build_parser())), end="")


def render(shell: str, root: Command) -> str:
    return SHELLS[shell](root)


def _bash(root: Command) -> str:
    return _filled(BASH, root)


def _zsh(root: Command) -> str:
    return _filled(ZSH, root)


def _filled(template: str, root: Command) -> str:
    tables = {
        "@steps@\n": _steps(root),
        "@values@\n": _values(root),
        "@flags@\n": _flags(root),
        "@words@\n": _words(root),
    }
    for mark, lines in tables.items():
        template = template.replace(mark, "".join(f"{line}\n" for line in lines))
    return template


def _steps(root: Command) -> Iterable[str]:
    """What a typed word does: go to a subcommand, or await a value of an option."""
    for command in root.walk():
        for each in command.commands:
            yield f'            "{command.name}:{each.path[-1]}") at="{each.name}" place=0 ;;'
        valued = [flag for option in command.options if option.name for flag in option.flags]
        if valued:
            patterns = "|".join(f'"{command.name}:{flag}"' for flag in valued)
            yield f"            {patterns}) option=$word value=1 ;;"


def _values(root: Command) -> Iterable[str]:
    for command in root.walk():
        for option in command.options:
            if values := _completed(option):
                patterns = "|".join(f'"{command.name}:{flag}"' for flag in option.flags)
                yield f'        {patterns}) found="{values}" ;;'


def _flags(root: Command) -> Iterable[str]:
    for command in root.walk():
        flags = " ".join(flag for option in command.options for flag in option.flags)
        yield f'        "{command.name}") flags="{flags}" ;;'


def _words(root: Command) -> Iterable[str]:
    """Subcommands, and values of positional arguments by their place."""
    for command in root.walk():
        if command.commands:
            yield f'        "{command.name}:"*) found="{" ".join(each.path[-1] for each in command.commands)}" ;;'
            continue
        for place, argument in enumerate(command.positionals):
            if values := _completed(argument):
                yield f'        "{command.name}:{place}") found="{values}" ;;'


def _completed(argument: Argument) -> str:
    """Words, or FILES or DIRECTORIES; empty if the values are unknown, or there are none."""
    if not argument.name:
        return ""
    return " ".join(argument.choices) or {"file": FILES, "directory": DIRECTORIES}.get(argument.kind, "")


# --- fish -------------------------------------------------------------------------------------------------------------


def _fish(root: Command) -> str:
    lines = ["# fish completion for neutrino; made by `neutrino completion fish`.", "complete -c neutrino -f"]
    for command in root.walk():
        condition = _condition(command)
        for each in command.commands:
            lines.append(f"complete -c neutrino -n {condition} -a {each.path[-1]} -d {_quoted(each.help)}")
        for argument in command.positionals:
            if argument.choices:
                choices = _quoted(" ".join(argument.choices))
                lines.append(f"complete -c neutrino -n {condition} -a {choices} -d {_quoted(argument.help)}")
        lines += [_fish_option(condition, option) for option in command.options]
    return "\n".join(lines) + "\n"


def _condition(command: Command) -> str:
    """Whether the command is the one being typed: its words are there, and none of its subcommands' are."""
    seen = [f"__fish_seen_subcommand_from {word}" for word in command.path[1:]]
    if command.commands:
        further = " ".join(each.path[-1] for each in command.commands)
        seen.append(f"not __fish_seen_subcommand_from {further}")
    return _quoted("; and ".join(seen) or "true")


def _fish_option(condition: str, option: Argument) -> str:
    words = ["complete -c neutrino -n", condition]
    for flag in option.flags:
        words += ["-l", flag[2:]] if flag.startswith("--") else ["-s", flag[1:]]
    values = _completed(option)
    if values == FILES:
        words.append("-r -F")
    elif values == DIRECTORIES:
        words.append("-x -a '(__fish_complete_directories)'")
    elif option.name:
        words.append(f"-x -a {_quoted(values)}" if values else "-x")
    return " ".join([*words, "-d", _quoted(option.help)])


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


SHELLS: Mapping[str, Callable[[Command], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
