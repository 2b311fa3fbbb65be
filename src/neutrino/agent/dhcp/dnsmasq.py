"""The directories of networks with dnsmasq's files, lease releases, and the leases of a dnsmasq of Neutron's agent.

The supervisor runs dnsmasq; this is what is special about it. A directory per network is the record by which an agent that
has lost its memory knows what it serves.

A dnsmasq of Neutron's agent, on a host that is taken over, may have its files in this directory too, or in another one: its
command line names them. Its leases are copied twice: while it runs, so that they are here if the agent is killed after it
has ended that dnsmasq; and when it has ended, as it may have given a lease in between.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from neutrino import daemon_files, private
from neutrino.agent.dhcp.render import LEASES, PID
from neutrino.agent.leftovers.recognise import arguments
from neutrino.agent.runtime.supervisor import list_directory
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process import foreign
from neutrino.dataplane.process.api import ForeignProcess
from neutrino.dataplane.program import run_program

FILE_MODE = 0o644  # dnsmasq reads its files again after it has dropped its privileges
LEASES_ARGUMENT = "--dhcp-leasefile"


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
        # Of a directory that another user owns, as Neutron's agent does, only our own files stay: the leases have to.
        with contextlib.suppress(OSError), daemon_files.opened(self._leases(network_id), os.O_RDONLY) as leases:
            os.fchown(leases, os.geteuid(), -1)
        daemon_files.own_directory(self._directory / network_id)

    def forget(self, network_id: str) -> None:
        shutil.rmtree(self._directory / network_id, ignore_errors=True)

    def read(self, network_id: str, name: str) -> str | None:
        return daemon_files.read(self._directory / network_id / name)

    def write_leases(self, network_id: str, text: str) -> None:
        daemon_files.write(self._leases(network_id), text, mode=FILE_MODE)

    def _leases(self, network_id: str) -> Path:
        return self._directory / network_id / LEASES

    def release(self, namespace: str, argv: Sequence[str]) -> None:
        """Run dhcp_release inside the namespace; ProgramError if that fails."""
        self._namespaces.run(namespace, lambda: run_program(argv))

    # --- leases of Neutron's dnsmasq ---

    def copy_leases(self, network_id: str, others: Iterable[ForeignProcess]) -> tuple[str, ...]:
        """Copy the leases of running dnsmasq processes; gives the files that still have them when the processes have ended.

        Read as the process sees them, which may be in a container; its files are gone with it, and only the copy is left.
        """
        texts, stay = [], []
        for process in others:
            for path in arguments(process.command, LEASES_ARGUMENT):
                seen = f"/proc/{process.pid}/root{path}"
                if _is_same_file(seen, self._leases(network_id)):
                    continue  # not copied: it would go on with a file that has lost its name
                texts.append(daemon_files.read(seen) or "")
                stay += [path] if _is_same_file(seen, path) else []
        if any(texts):
            self.write_leases(network_id, "".join(texts))
        return tuple(stay)

    def copy_last_leases(self, network_id: str, files: Iterable[str]) -> None:
        """Copy the leases in these files, of processes that have ended."""
        text = "".join(daemon_files.read(path) or "" for path in files)
        if text:
            self.write_leases(network_id, text)

    # --- processes with this directory on their command line ---

    def pids(self, network_id: str, *, scan: bool = False) -> Iterator[int]:
        """Processes of the network's dnsmasq, of any agent: the one in the pid file; `scan`: all, for a lost pid file."""
        argument = f"--pid-file={self._directory / network_id / PID}"
        recorded = (daemon_files.read(self._directory / network_id / PID, 64) or "").strip()
        for pid in foreign.pids() if scan else map(int, filter(str.isdecimal, [recorded])):
            argv = foreign.command_line(pid)
            if argv and argument in argv and Path(argv[0]).name == "dnsmasq":  # the pid may be another program's by now
                yield pid

    def stop_all(self, network_id: str) -> None:
        """End all of them, before the network is removed."""
        for pid in list(self.pids(network_id, scan=True)):
            foreign.stop(pid, foreign.command_line(pid))


def _is_same_file(one: str | Path, other: str | Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
