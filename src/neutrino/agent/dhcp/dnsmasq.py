"""The directories of networks with dnsmasq's files, lease releases, and dnsmasq processes that other agents left.

The supervisor runs dnsmasq; this is what is special about it. A directory per network is the record by which an agent that
has lost its memory knows what it serves. A dnsmasq of Neutron's agent, on a host that is taken over, carries none of our
marks: it is recognised by the pid file on its command line, and stopped before ours is started.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from neutrino import daemon_files, private
from neutrino.agent.dhcp.render import PID
from neutrino.agent.runtime.supervisor import list_directory
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process import foreign
from neutrino.dataplane.program import run_program


class Dnsmasq:
    """Blocking. `directory` holds the networks' directories."""

    def __init__(self, directory: str, namespaces: Namespaces) -> None:
        self._directory = Path(directory)
        self._namespaces = namespaces

    def networks(self) -> frozenset[str]:
        """Networks that have a directory here."""
        names = list_directory(self._directory)
        return frozenset(name for name in names if len(name) == 36 and name.count("-") == 4)

    def record(self, network_id: str) -> None:
        """Make the network's directory. Passable for all users: dnsmasq drops its privileges and reads files later."""
        private.own_directory(self._directory, passable=True)
        daemon_files.own_directory(self._directory / network_id)

    def forget(self, network_id: str) -> None:
        shutil.rmtree(self._directory / network_id, ignore_errors=True)

    def read(self, network_id: str, name: str) -> str | None:
        return daemon_files.read(self._directory / network_id / name)

    def release(self, namespace: str, argv: Sequence[str]) -> None:
        """Run dhcp_release inside the namespace; ProgramError if that fails."""
        self._namespaces.run(namespace, lambda: run_program(argv))

    # --- processes of other agents ---

    def pids(self, network_id: str, *, scan: bool = False) -> Iterator[int]:
        """Processes of the network's dnsmasq, of any agent: the one in the pid file; `scan`: all, for a lost pid file."""
        argument = f"--pid-file={self._directory / network_id / PID}"
        recorded = (daemon_files.read(self._directory / network_id / PID, 64) or "").strip()
        for pid in foreign.pids() if scan else map(int, filter(str.isdecimal, [recorded])):
            argv = foreign.command_line(pid)
            if argv and argument in argv and Path(argv[0]).name == "dnsmasq":  # the pid may be another program's by now
                yield pid

    def stop_others(self, network_id: str, *, scan: bool = False) -> None:
        for pid in list(self.pids(network_id, scan=scan)):
            foreign.stop(pid, foreign.command_line(pid))
