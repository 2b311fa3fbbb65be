"""Daemons of Neutron's agents on this host: read before a conversion, and started again on the way back.

Of each daemon its command line, directory, environment, namespace and files are saved. On the way back ours are ended next
to the start of Neutron's, in an order that depends on the program:

* haproxy: Neutron's first. Both listen for a moment (SO_REUSEPORT), then our proxy stops to listen in that namespace, and
  completes the requests that it has.
* radvd: Neutron's first, then ours by SIGKILL: on SIGTERM it would withdraw the default route of all instances.
* dnsmasq: ours first, as both need port 53; Neutron's then starts with the leases that ours had.
* conntrackd: ours first, as both need the same socket for commands where the directories are the same.
* keepalived: one that our agent has adopted runs on, gets its files back and SIGHUP. Otherwise Neutron's is started.

The roles of our agent must not run meanwhile, as they would repair all of this. Blocking. Each step can be repeated after a
kill: what runs already is not started again, but haproxy, of which the new one replaces the old one.
"""

import contextlib
import dataclasses
import logging
import os
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from neutrino import daemon_files
from neutrino.agent.dhcp.network import NAMESPACE_KIND
from neutrino.agent.l3.names import ROUTER_KIND, SNAT_KIND
from neutrino.agent.leftovers.recognise import LeftoverKind, arguments, neutron_daemon
from neutrino.agent.metadata.build import NAME as METADATA_PROXY
from neutrino.agent.metadata.channel import ChannelClosed, connect
from neutrino.agent.metadata.messages import PROXY_MESSAGES, SetListener
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.values import HOST
from neutrino.dataplane.process.api import ForeignProcess, ForeignProcesses, ProcessError
from neutrino.dataplane.process.foreign import RealForeignProcesses, circumstances
from neutrino.dataplane.process.real import RealProcesses

LOG = logging.getLogger(__name__)
DNSMASQ, HAPROXY, RADVD, KEEPALIVED, CONNTRACKD = "dnsmasq", "haproxy", "radvd", "keepalived", "conntrackd"
STATE_CHANGE = "neutron-keepalived-state-change"
KINDS: tuple[LeftoverKind, ...] = (NAMESPACE_KIND, ROUTER_KIND, SNAT_KIND)
FILES: Mapping[str, tuple[str, ...]] = {
    DNSMASQ: ("--dhcp-leasefile", "--dhcp-hostsfile", "--addn-hosts", "--dhcp-optsfile", "--conf-file"),
    HAPROXY: ("-f",),
    RADVD: ("-C",),
    KEEPALIVED: ("-f", "--use-file"),
    CONNTRACKD: ("-C",),
}
"""The arguments that name a program's files. Pid files and logs are not saved: programs write them anew."""
LEASES = "--dhcp-leasefile"
UNSAVED = ("pid", ".pid", ".log")  # ends of names of files that are not saved
START_SECONDS = 20.0  # for a daemon to open its sockets and to go into the background
CLOSE_SECONDS = 10.0  # for our metadata proxy to answer
DRAIN_SECONDS = 1.0  # for requests that our metadata proxy has when it stops to listen
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class SavedPath(msgspec.Struct, frozen=True):
    """A file, or a directory (`text` is None), with its permissions."""

    path: str
    mode: int
    user: int
    group: int
    text: str | None = None


class SavedDaemon(msgspec.Struct, frozen=True):
    """A daemon of Neutron's agents, as it ran when it was read."""

    program: str  # one of `leftovers.recognise.DAEMONS`
    object_id: str  # the router or network
    namespace: str  # that it serves
    started_in: str  # the namespace of the process; HOST for the monitor of keepalived's state
    argv: tuple[str, ...]
    directory: str
    environment: dict[str, str]
    paths: tuple[SavedPath, ...] = ()  # directories before the files in them


@dataclasses.dataclass(frozen=True)
class OurDaemons:
    """What the way back needs to know of the agent: its mark, and the control socket of its metadata proxy."""

    state_path: str
    metadata_socket: str
    namespaces: Namespaces = dataclasses.field(default_factory=Namespaces)

    @property
    def processes(self) -> ForeignProcesses:
        return RealForeignProcesses(self.namespaces)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_daemons(namespaces: Namespaces | None = None) -> tuple[SavedDaemon, ...]:
    """All daemons of Neutron's agents on this host, sorted, with copies of their files."""
    namespaces = namespaces or Namespaces()
    found = RealForeignProcesses(namespaces).by_namespace(_served(namespaces.names()) | {HOST})
    daemons = [each for name, processes in found.items() for each in _read(name, processes)]
    return tuple(sorted(daemons, key=lambda each: (each.namespace, each.program)))


def _served(names: Iterable[str]) -> frozenset[str]:
    """Namespaces that have the names of routers and networks."""
    return frozenset(name for name in names if any(kind.object_id(name) for kind in KINDS))


def _read(namespace: str, processes: Sequence[ForeignProcess]) -> Iterator[SavedDaemon]:
    for process in processes:
        served = namespace or _monitored(process)
        object_id = served.partition("-")[2]
        program = neutron_daemon(process, object_id) if object_id else ""
        started = circumstances(process.pid) if program else None
        # keepalived and shells have children with their own command line.
        if started is None or any((each.pid, each.argv) == (process.parent, process.argv) for each in processes):
            continue
        yield SavedDaemon(
            program,
            object_id,
            served,
            namespace,
            process.command,
            started.directory,
            dict(started.environment),
            tuple(_read_paths(process.pid, _files(program, process.command), object_id)),
        )


def _monitored(process: ForeignProcess) -> str:
    """The namespace that a monitor of keepalived's state, a process in the host's, is for; empty for others."""
    if STATE_CHANGE not in process.programs:
        return ""
    return next(arguments(process.command, "--namespace"), "")


def _files(program: str, argv: Sequence[str]) -> list[str]:
    return [path for path in arguments(argv, *FILES.get(program, ())) if path.startswith("/")]


def _read_paths(pid: int, files: Sequence[str], object_id: str) -> Iterator[SavedPath]:
    """The files, with all others in a directory of the object's own; and that directory, with the one above it.

    Read as the process sees them, which may have been started in a container.
    """
    root = Path(f"/proc/{pid}/root")
    own = sorted({Path(path).parent for path in files if Path(path).parent.name == object_id})
    for directory in (above for each in own for above in (each.parent, each)):
        if (found := _read_path(root, directory)) is not None:
            yield found
    with contextlib.suppress(OSError):
        files = [*files, *(str(path / entry) for path in own for entry in sorted(os.listdir(_below(root, path))))]
    for path in dict.fromkeys(files):
        if not path.endswith(UNSAVED) and (found := _read_path(root, Path(path))) is not None:
            yield found


def _read_path(root: Path, path: Path) -> SavedPath | None:
    """None for what is neither a directory nor a regular file."""
    try:
        status = os.lstat(_below(root, path))
        text = daemon_files.read(_below(root, path)) if stat.S_ISREG(status.st_mode) else None
    except OSError:
        return None
    if text is None and not stat.S_ISDIR(status.st_mode):
        return None
    return SavedPath(str(path), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, text)


def _below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


# --- the way back -----------------------------------------------------------------------------------------------------


def restart(saved: Iterable[SavedDaemon], ours: OurDaemons) -> list[str]:
    """Start Neutron's daemons in place of ours; gives those that could not be started, with the reason."""
    problems = []
    closed = 0.0
    for daemon in sorted(saved, key=lambda each: (each.program != HAPROXY, each.namespace, each.program)):
        try:
            _RESTARTS.get(daemon.program, _start_alone)(daemon, ours)
        except (ProcessError, NetlinkError, OSError) as error:
            problems.append(f"{daemon.program} in {daemon.namespace} is not started: {error}")
        if daemon.program == HAPROXY:
            closed = time.monotonic()
    if closed:
        _end_proxy(ours, closed + DRAIN_SECONDS)
    return problems


def _end_proxy(ours: OurDaemons, at: float) -> None:
    """End our metadata proxy, one process for all namespaces, when it has had time for its last requests."""
    processes = RealProcesses(ours.state_path, ours.namespaces)
    proxy = processes.running().get(METADATA_PROXY)
    if proxy is not None:
        time.sleep(max(0.0, at - time.monotonic()))
        processes.stop(proxy)


def reload_keepalived(daemon: SavedDaemon, ours: OurDaemons) -> bool:
    """Give a keepalived that was started by Neutron's agent its files back, by SIGHUP; False if it does not run."""
    running = _running(daemon, ours)
    if running is None:
        return False
    restore_files(daemon)
    return ours.processes.send(running, signal.SIGHUP)


def restore_files(daemon: SavedDaemon, *, but: Collection[str] = ()) -> None:
    """Write the files of a daemon as they were, with the permissions of their directories."""
    for each in daemon.paths:
        if each.path in but:
            continue
        if each.text is not None:
            write_path(each, each.text)
        else:
            os.makedirs(each.path, exist_ok=True)
            os.chmod(each.path, each.mode)
            os.chown(each.path, each.user, each.group)


def write_path(saved: SavedPath, text: str) -> None:
    daemon_files.write(saved.path, text, mode=saved.mode)
    os.chown(saved.path, saved.user, saved.group, follow_symlinks=False)


def _restart_dnsmasq(daemon: SavedDaemon, ours: OurDaemons) -> None:
    leases = next(arguments(daemon.argv, LEASES), "")
    restore_files(daemon, but={leases})
    if _running(daemon, ours) is not None:  # it was not replaced yet
        return
    our = _ours(daemon, ours)
    if our is not None:
        _copy_leases(our, daemon, leases)  # before ours ends: a way back that is killed then is repeated with these
        ours.processes.stop(our)
        _copy_leases(our, daemon, leases)
    elif not Path(leases).exists():
        restore_files(daemon)
    _start(daemon, ours)


def _copy_leases(our: ForeignProcess, daemon: SavedDaemon, leases: str) -> None:
    """Write the leases that our dnsmasq has now as Neutron's: both have dnsmasq's format."""
    text = daemon_files.read(next(arguments(our.command, LEASES), ""))
    saved = next((each for each in daemon.paths if each.path == leases), None)
    if text is not None:
        write_path(saved or SavedPath(leases, 0o644, os.geteuid(), os.getegid()), text)


def _restart_haproxy(daemon: SavedDaemon, ours: OurDaemons) -> None:
    """Start another one in any case: one that runs may have closed its sockets, and only complete its requests."""
    restore_files(daemon)
    before = _all_running(daemon, ours)
    _start(daemon, ours)
    for each in before:
        ours.processes.send(each, signal.SIGUSR1)
    with contextlib.suppress(OSError, ChannelClosed):  # our proxy does not run
        channel = connect(ours.metadata_socket, PROXY_MESSAGES, CLOSE_SECONDS)
        with channel.socket:
            channel.receive()
            channel.send(SetListener(daemon.namespace, None))


def _restart_radvd(daemon: SavedDaemon, ours: OurDaemons) -> None:
    restore_files(daemon)
    if _running(daemon, ours) is None:
        _start(daemon, ours)
    our = _ours(daemon, ours)
    if our is not None:
        ours.processes.stop(our, kill=True)


def _restart_keepalived(daemon: SavedDaemon, ours: OurDaemons) -> None:
    if reload_keepalived(daemon, ours):
        return
    our = _ours(daemon, ours)
    if our is not None:
        ours.processes.stop(our)
    restore_files(daemon)
    _start(daemon, ours)


def _restart_conntrackd(daemon: SavedDaemon, ours: OurDaemons) -> None:
    our = _ours(daemon, ours)
    if our is not None:
        ours.processes.stop(our)
    _start_alone(daemon, ours)


def _start_alone(daemon: SavedDaemon, ours: OurDaemons) -> None:
    restore_files(daemon)
    if _running(daemon, ours) is None:
        _start(daemon, ours)


_RESTARTS: Mapping[str, Callable[[SavedDaemon, OurDaemons], None]] = {
    DNSMASQ: _restart_dnsmasq,
    HAPROXY: _restart_haproxy,
    RADVD: _restart_radvd,
    KEEPALIVED: _restart_keepalived,
    CONNTRACKD: _restart_conntrackd,
}


def _running(daemon: SavedDaemon, ours: OurDaemons) -> ForeignProcess | None:
    """The daemon itself, or one that Neutron's agent has started like it; not one of its children."""
    found = {each.pid: each for each in _all_running(daemon, ours)}
    return next((each for each in found.values() if each.parent not in found), None)


def _all_running(daemon: SavedDaemon, ours: OurDaemons) -> list[ForeignProcess]:
    inside = ours.processes.inside(daemon.started_in)
    return [each for each in inside if not each.owner and each.command == daemon.argv]


def _ours(daemon: SavedDaemon, ours: OurDaemons) -> ForeignProcess | None:
    """Our daemon of the same program in the namespace."""
    found = (each for each in ours.processes.inside(daemon.namespace) if each.owner == ours.state_path)
    return min((each for each in found if daemon.program in each.programs), key=lambda each: each.pid, default=None)


def _start(daemon: SavedDaemon, ours: OurDaemons) -> None:
    """Start it in its namespace; all but the monitor of keepalived's state go into the background by themselves."""
    environment = {"PATH": DEFAULT_PATH, **daemon.environment}
    with tempfile.TemporaryFile() as output:

        def spawn() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                daemon.argv,
                cwd=daemon.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

        process = ours.namespaces.run(daemon.started_in, spawn)
        if daemon.program == STATE_CHANGE:
            return
        try:
            status = process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ProcessError(f"it is not ready after {START_SECONDS:g} s") from None
        if status != 0:
            output.seek(0)
            reason = output.read(4096).decode(errors="replace").strip()
            raise ProcessError(reason or f"it exited with status {status}")
    LOG.info("%s: %s of Neutron's agent is started again", daemon.namespace, daemon.program)
