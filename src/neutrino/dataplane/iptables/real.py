"""The driver of a real kernel, through iptables-save, iptables-restore and ipset."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from neutrino.dataplane.iptables.api import SETTINGS, AddressSet, IptablesError, Rule, parse_rules, parse_sets

_PREFIX = {4: "iptables", 6: "ip6tables"}
_LINE_NUMBER = re.compile(r"line:? (\d+)")
_LOCK_SECONDS = "10"  # to wait for other programs that change rules


class RealIptables:
    """Implements `Iptables`. `namespace` is the path of a network namespace; empty for the current one."""

    def __init__(self, namespace: str = "", *, timeout: float = 60) -> None:
        self._enter = ["nsenter", f"--net={namespace}"] if namespace else []
        self._timeout = timeout

    def read_rules(self, family: int) -> dict[str, dict[str, tuple[Rule, ...]]]:
        return parse_rules(self._run([f"{_PREFIX[family]}-save"]))

    def restore_rules(self, family: int, text: str) -> None:
        if text:
            self._run([f"{_PREFIX[family]}-restore", "-w", _LOCK_SECONDS, "--noflush"], text)

    def read_sets(self) -> dict[str, AddressSet]:
        return parse_sets(self._run(["ipset", "save"]))

    def restore_sets(self, text: str) -> None:
        if text:
            self._run(["ipset", "-exist", "restore"], text)

    def read_settings(self) -> dict[str, bool]:
        return {name: self._run(["cat", _file(name)]).strip() != "0" for name in SETTINGS}

    def enable(self, settings: Iterable[str]) -> None:
        for name in settings:
            # Written by a process in the namespace: the file shows the setting of the namespace of whoever opens it.
            self._run(["tee", _file(name)], "1\n")

    def _run(self, command: list[str], text: str = "") -> str:
        try:
            done = subprocess.run(
                [*self._enter, *command], input=text, capture_output=True, text=True, timeout=self._timeout, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise IptablesError(f"{command[0]}: {error}") from error
        if done.returncode != 0:
            lines = (line.strip() for line in done.stderr.splitlines() if not line.startswith("Try "))
            reason = "; ".join(filter(None, lines)) or f"exited with status {done.returncode}"
            raise IptablesError(f"{command[0]}: {reason}{_quoted(reason, text)}")
        return done.stdout


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
