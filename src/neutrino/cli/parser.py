"""A parser of the command line that lists its arguments and commands, which argparse does not."""

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Declared:
    """An argument of a parser."""

    action: argparse.Action
    repeatable: bool


class Parser(argparse.ArgumentParser):
    def __init__(self, *, parents: Sequence["Parser"] = (), **options: Any) -> None:
        self.arguments: list[Declared] = []
        self.commands: dict[str, tuple[str, Parser]] = {}  # with the help of each; without help it is internal
        self._add_command: Any = None
        super().__init__(parents=parents, **options)
        for parent in parents:
            self.arguments += parent.arguments

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        return self.declare(super().add_argument(*names, **options), repeatable=options.get("action") == "append")

    def declare(self, action: argparse.Action, *, repeatable: bool = False) -> argparse.Action:
        """Record an argument that was added to a group of this parser."""
        self.arguments.append(Declared(action, repeatable))
        return action

    def add_actions(self, actions: Mapping[str, str], dest: str = "action", default: str = "") -> None:
        """Add a word of a few as an argument; the help says what each of them does."""
        options = {"nargs": "?", "default": default} if default else {}
        self.add_argument(dest, choices=list(actions), help=f"one of {', '.join(actions)}, see above", **options)
        lines = [
            textwrap.fill(text, 100, initial_indent=f"  {name}: ", subsequent_indent="      ")
            for name, text in actions.items()
        ]
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        self.description = "\n\n".join(filter(None, (self.description, *lines)))

    def take_commands(self, dest: str) -> None:
        """Require a command or an action as the next word, of those that `add_command` adds."""
        self._add_command = self.add_subparsers(dest=dest, required=True, metavar=dest.upper()).add_parser

    def add_command(self, name: str, **options: Any) -> Self:
        if text := options.get("help"):
            options.setdefault("description", f"{text[:1].upper()}{text[1:]}.")
        command: Self = self._add_command(name, **options)
        self.commands[name] = options.get("help", ""), command
        return command
