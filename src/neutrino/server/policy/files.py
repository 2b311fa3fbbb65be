"""The policy files of a server: found as oslo.policy finds them, read, and parsed rule by rule.

A file that cannot be read may contain anything, so it refuses all access; a rule that cannot be parsed refuses what it
governs. oslo.policy would allow some of it: an empty value is a check that is always true, and so is `not` of one that is
not understood.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_policy import policy

from neutrino.errors import RefusedToStart
from neutrino.server.policy import checks

DEFAULT_FILE = "policy.yaml"
Signature = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a policy file."""

    path: str
    rule: str  # empty: the file as a whole
    text: str
    refuses: bool = False  # access is refused while it lasts; otherwise a part of the file has no effect

    def __str__(self) -> str:
        return f"{self.path}: {f'{self.rule!r}: ' if self.rule else ''}{self.text}"


class PolicyFileError(RefusedToStart):
    """A policy file cannot be read: the rights that it gives and takes are not known."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Override:
    """A rule of a file, as it is written there."""

    path: str
    value: object


@dataclass(frozen=True, slots=True)
class Files:
    roots: tuple[str, ...]  # the policy file and the directories that exist
    paths: tuple[str, ...]  # all files, in the order in which they are read

    @property
    def signature(self) -> Signature:
        """Changes with the files. A file that is replaced by an older one has another inode."""
        return tuple((path, *_stat(path)) for path in (*self.roots, *self.paths))


def find(conf: cfg.ConfigOpts) -> Files:
    """The files of the configuration: policy_file, then those in policy_dirs by name, without hidden ones."""
    file = conf.find_file(conf.oslo_policy.policy_file)
    directories = [found for name in conf.oslo_policy.policy_dirs if (found := conf.find_file(name))]
    inside = [str(path) for directory in directories for path in _files_in(Path(directory))]
    files = [file] if file else []
    return Files((*files, *directories), (*files, *inside))


def read(paths: tuple[str, ...]) -> tuple[dict[str, Override], list[Fault]]:
    """The rules of all files, of which a later one wins, and the files that cannot be read."""
    found: dict[str, Override] = {}
    faults = []
    for path in paths:
        try:
            contents: object = policy.parse_file_contents(Path(path).read_bytes())
            if not isinstance(contents, dict) or not all(isinstance(name, str) for name in contents):
                raise ValueError("it is not a mapping of names of rules to checks")
            found.update({name: Override(path, value) for name, value in contents.items()})
        except OSError as error:
            faults.append(Fault(path, "", f"it cannot be read: {error.strerror or error}", refuses=True))
        except ValueError as error:  # of YAML and of its encoding too
            faults.append(Fault(path, "", " ".join(str(error).split()), refuses=True))
    return found, faults


def parse(value: object) -> Any:
    """The check of a rule; ValueError with the reason if it has none, or one that could not be evaluated."""
    if not isinstance(value, str | list):
        raise ValueError('it has no check: write "@" to allow everyone, "!" to refuse everyone')
    try:
        check = checks.parse(value)
    except Exception as error:  # whatever a check of another package raises
        raise ValueError(f"the check cannot be parsed: {error}") from None
    leaves = list(leaves_of(check))
    # oslo.policy replaces what it does not understand by a check that is never true, which `not` makes always true.
    if sum(isinstance(leave, checks.FalseCheck) for leave in leaves) > _words(value).count("!"):
        raise ValueError(f"{value!r} is not a valid check")
    for leave in leaves:
        _try_format(leave)
    return check


def leaves_of(check: Any) -> Iterator[Any]:
    """The checks that a check is made of, without `and`, `or` and `not`."""
    if isinstance(check, policy.NotCheck):
        yield from leaves_of(check.rule)
    elif isinstance(check, policy.AndCheck | policy.OrCheck):
        for rule in check.rules:
            yield from leaves_of(rule)
    else:
        yield check


def unknown_credential(check: Any, credentials: frozenset[str]) -> str | None:
    """The credential that a check compares, if no caller has it."""
    if type(check) is not checks.GenericCheck:
        return None
    try:
        ast.literal_eval(check.kind)
    except (ValueError, SyntaxError):
        name = str(check.kind).partition(".")[0]
        return None if name in credentials else name
    return None  # a literal


class _AnyObject(Mapping[str, str]):
    """An object with every attribute."""

    def __getitem__(self, name: str) -> str:
        return ""

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _try_format(check: Any) -> None:
    text = getattr(check, "match", None)
    if isinstance(text, str) and "%" in text and not isinstance(check, policy.RuleCheck):
        try:
            _ = text % _AnyObject()
        except (ValueError, TypeError) as error:
            raise ValueError(f"{str(check)!r} is not valid, write %(attribute)s: {error}") from None


def _words(value: Any) -> list[str]:
    texts = [str(part) for each in value for part in (each if isinstance(each, list) else [each])]
    text = value if isinstance(value, str) else " ".join(texts)
    return text.replace("(", " ").replace(")", " ").split()


def _files_in(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError:  # reading it as a file states the reason
        return [directory]


def _stat(path: str) -> tuple[int, int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
