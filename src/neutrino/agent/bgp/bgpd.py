"""bgpd's directory, and its configuration while it runs, through vtysh.

    DIRECTORY/SPEAKER/bgpd.conf, commands   by the agent, readable for bgpd's group: passwords of peers are in them
    DIRECTORY/SPEAKER/log                   bgpd's output
    DIRECTORY/SPEAKER/run/                  of bgpd's user: its socket and its pid file

The directory of a speaker is the record by which an agent that has lost its memory knows what it serves. It belongs to
the agent: bgpd's user can change nothing that root writes to. vtysh runs as bgpd's user too: it connects to a socket
that this user may have replaced.
"""

import json
import pwd
import shutil
from pathlib import Path

from neutrino import daemon_files
from neutrino.agent.bgp.render import Config, as_file, changes, parse
from neutrino.agent.runtime.supervisor import Service, list_directory
from neutrino.dataplane.process.api import Daemon
from neutrino.dataplane.program import ProgramError, run_as, run_program

CONFIG, COMMANDS, RUN, PID, LOG = "bgpd.conf", "commands", "run", "pid", "log"
SOCKET = "bgpd.vty"  # as bgpd and vtysh name it
MAX_SOCKET_PATH = 107  # of a Unix socket


def daemon_name(speaker_id: str) -> str:
    return f"bgpd {speaker_id}"


class Bgpd:
    """Blocking. `directory` holds the directories of speakers."""

    def __init__(self, directory: str, program: str, user: str) -> None:
        """`user`: whom bgpd runs as; empty: as the agent."""
        self._directory = Path(directory)
        self._program = program
        self._owner = pwd.getpwnam(user) if user else None

    def speakers(self) -> frozenset[str]:
        """Speakers that have a directory here."""
        return frozenset(list_directory(self._directory))

    def service(self, speaker_id: str) -> Service:
        return Service(self.daemon(speaker_id), before_start=lambda: self._prepare_run(speaker_id))

    def daemon(self, speaker_id: str) -> Daemon:
        here = self._directory / speaker_id
        # It listens on no port: sessions are those that it opens itself, as with Neutron's agent, so that it does not
        # interfere with another BGP daemon of the host. It talks to no zebra and writes no route.
        alone = ("--bgp_port", "0", "--vty_port", "0", "--no_zebra", "--no_kernel")
        files = (
            "--config_file",
            str(here / CONFIG),
            "--pid_file",
            str(here / RUN / PID),
            "--vty_socket",
            str(here / RUN),
        )
        user = (
            ("--skip_runas",)
            if self._owner is None
            else ("--user", self._owner.pw_name, "--group", self._owner.pw_name)
        )
        return Daemon(
            daemon_name(speaker_id),
            (self._program, *alone, *files, *user, "--log", "stdout"),
            pid_file=str(here / RUN / PID),
            log_file=str(here / LOG),
            writes_pid_file=True,
        )

    def write(self, speaker_id: str, config: Config) -> None:
        """Write the configuration that bgpd reads when it is started."""
        here = self._directory / speaker_id
        if len(str(here / RUN / SOCKET)) > MAX_SOCKET_PATH:
            raise ProgramError(f"{here / RUN / SOCKET} is too long for a socket: state_path needs to be shorter")
        daemon_files.own_directory(self._directory)
        daemon_files.own_directory(here)
        self._write(here / CONFIG, as_file(config))

    def plan(self, speaker_id: str, config: Config) -> list[str]:
        """The commands that a running bgpd lacks."""
        return changes(config, parse(self._vtysh(speaker_id, "--command", "show running-config")))

    def apply(self, speaker_id: str, commands: list[str]) -> None:
        """From a file: passwords are in no process's arguments."""
        path = self._directory / speaker_id / COMMANDS
        self._write(path, "".join(f"{command}\n" for command in commands))
        try:
            self._vtysh(speaker_id, "--inputfile", str(path))
        finally:
            path.unlink(missing_ok=True)

    def sessions(self, speaker_id: str) -> dict[str, str]:
        """The state of each session by the peer's address, such as Established or Active."""
        try:
            families = json.loads(self._vtysh(speaker_id, "--command", "show bgp summary json"))
        except ValueError as error:
            raise ProgramError(f"bgpd of speaker {speaker_id}: its summary is not understood: {error}") from None
        summaries = [each for each in families.values() if isinstance(each, dict)] if isinstance(families, dict) else []
        return {
            peer: str(found.get("state", "unknown"))
            for summary in summaries
            for peer, found in summary.get("peers", {}).items()
        }

    def forget(self, speaker_id: str) -> None:
        shutil.rmtree(self._directory / speaker_id, ignore_errors=True)

    def _prepare_run(self, speaker_id: str) -> None:
        """Empty, whatever a bgpd that was killed, or its user, has left there."""
        path = self._directory / speaker_id / RUN
        daemon_files.give_directory(path, *((self._owner.pw_uid, self._owner.pw_gid) if self._owner else (-1, -1)))

    def _write(self, path: Path, text: str) -> None:
        if self._owner is None:
            daemon_files.write(path, text)
        else:
            daemon_files.write(path, text, mode=0o640, group=self._owner.pw_gid)

    def _vtysh(self, speaker_id: str, *arguments: str) -> str:
        socket = ("--vty_socket", str(self._directory / speaker_id / RUN), "--daemon", "bgpd")
        command = ("vtysh", *socket, *arguments)
        return run_program(command) if self._owner is None else run_as(self._owner, command)
