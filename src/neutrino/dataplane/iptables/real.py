"""The driver of a real kernel, through iptables-save, iptables-restore and ipset."""

import contextlib
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from neutrino.dataplane.iptables.api import (
    SETTINGS,
    AddressSet,
    IptablesError,
    Rule,
    parse_rules,
    parse_sets,
    scope_chains,
    without_neutron,
)
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.program import ProgramError, run_program

_PREFIX = {4: "iptables", 6: "ip6tables"}
_LINE_NUMBER = re.compile(r"line:? (\d+)")
_LOCK_SECONDS = "10"  # to wait for other programs that change rules


class RealIptables:
    """Implements `Iptables`, in the network namespace of the calling thread."""

    def read_rules(self, family: int) -> dict[str, dict[str, tuple[Rule, ...]]]:
        return parse_rules(_run([f"{_PREFIX[family]}-save"]))

    def restore_rules(self, family: int, text: str) -> None:
        if text:
            _run([f"{_PREFIX[family]}-restore", "-w", _LOCK_SECONDS, "--noflush"], text)

    def read_sets(self) -> dict[str, AddressSet]:
        return parse_sets(_run(["ipset", "save"]))

    def restore_sets(self, text: str) -> None:
        if text:
            # -exist: a member that another run has added or removed meanwhile must not end the restore.
            _run(["ipset", "-exist", "restore"], text)

    def read_settings(self) -> dict[str, bool]:
        return {name: _run(["cat", _file(name)]).strip() != "0" for name in SETTINGS}

    def enable(self, settings: Iterable[str]) -> None:
        for name in settings:
            _run(["tee", _file(name)], "1\n")


def remove_neutron_rules(namespaces: Namespaces, namespace: str) -> bool:
    """Remove the rules of Neutron's agents in a namespace, those of others stay; whether there were any."""

    def remove(program: str) -> bool:
        try:
            rest = without_neutron(_run([f"{program}-save"]))
        except IptablesError:  # without the program nobody has made rules with it
            return False
        if rest:
            _run([f"{program}-restore", "-w", _LOCK_SECONDS], rest)
        return bool(rest)

    removed = [namespaces.run(namespace, partial(remove, program)) for program in _PREFIX.values()]
    return any(removed)


def save_rules(namespaces: Namespaces, namespace: str) -> dict[int, str]:
    """The rules of a namespace by IP version, as text; without those of a program that is not installed."""
    saved = {}
    for family, program in _PREFIX.items():
        with contextlib.suppress(IptablesError):
            saved[family] = namespaces.run(namespace, partial(_run, [f"{program}-save"]))
    return saved


def restore_saved(namespaces: Namespaces, namespace: str, saved: Mapping[int, str]) -> None:
    """Replace the rules of a namespace by saved ones, table by table, each in one transaction."""
    for family, text in saved.items():
        if text.strip():
            namespaces.run(namespace, partial(_run, [f"{_PREFIX[family]}-restore", "-w", _LOCK_SECONDS], text))


def flush_neutron_scopes(namespaces: Namespaces, namespace: str) -> None:
    """Empty the chains by which Neutron's L3 agent drops packets between address scopes in a namespace."""

    def flush(program: str) -> None:
        try:
            chains = scope_chains(_run([f"{program}-save", "-t", "filter"]))
        except IptablesError:  # without the program nobody has made rules with it
            return
        if chains:
            text = "".join(f":{chain} - [0:0]\n" for chain in chains)
            _run([f"{program}-restore", "-w", _LOCK_SECONDS, "--noflush"], f"*filter\n{text}COMMIT\n")

    for program in _PREFIX.values():
        namespaces.run(namespace, partial(flush, program))


def _run(command: list[str], text: str = "") -> str:
    try:
        return run_program(command, text)
    except ProgramError as error:
        lines = (line.strip() for line in str(error).splitlines() if not line.startswith("Try "))
        reason = "; ".join(filter(None, lines))
        raise IptablesError(f"{command[0]}: {reason}{_quoted(reason, text)}") from error


def _file(setting: str) -> str:
    path = Path("/proc/sys", *setting.split(".", 2))
    if not path.exists():
        raise IptablesError(
            f"{setting} does not exist: the kernel has no br_netfilter, without which packets on Linux bridges cannot be"
            " filtered; load the module (modprobe br_netfilter)"
        )
    return str(path)


def _quoted(reason: str, text: str) -> str:
    """The line of the input that an error message refers to by number."""
    found = _LINE_NUMBER.search(reason)
    lines = text.splitlines()
    if found is None or not 0 < int(found[1]) <= len(lines):
        return ""
    return f" ({lines[int(found[1]) - 1]})"
