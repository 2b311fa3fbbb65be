"""API workers: granian's supervisor of them, and the server that is assembled once, before it is forked.

Workers and the feed share the memory of the assembled server and start fast. Nothing is opened before the fork: each
process opens the database for itself.
"""

import contextlib
import gc
import logging
import mmap
import os
import signal
import socket
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.util import Finalize

import sqlalchemy as sa
from granian.server import Server as Granian

from neutrino.cli.child_process import end_with_parent
from neutrino.cli.slow_clients.front import Front
from neutrino.cli.slow_clients.rules import Limits
from neutrino.cli.slow_clients.watch import Watch
from neutrino.configuration.findings import Groups
from neutrino.configuration.options import Configuration
from neutrino.notify import notify
from neutrino.server import config
from neutrino.server.main import Server, assemble
from neutrino.server.main import application as application_of
from neutrino.server.main import report as report_options

LOG = logging.getLogger(__name__)
MAX_DEATHS = 30
WITHIN_SECONDS = 60.0
POLL_SECONDS = 0.05
SERVING_SECONDS = 1.0  # after the application is built: granian serves by then
REPEAT_SECONDS = 2.0
SUCCESSOR_SECONDS = 20.0  # for a new worker to listen
TARGET = "neutrino.cli.workers:application"
_server: Server | None = None
_successors: "Successors | None" = None  # of the server's supervisor, for the workers that it forks
_ready: tuple[int, int] | None = None  # a pipe, to which each worker writes once its application is built


def load(files: Sequence[str]) -> None:
    """Assemble the server with the current configuration, for the processes that are forked from now on."""
    global _server  # granian passes nothing to a forked worker
    conf = config.configuration(files)
    # Import here what each process would import for itself, unshared: the database driver and the feed.
    sa.make_url(config.database_url(conf)).get_dialect().import_dbapi()
    if conf.feed.run:
        import neutrino.server.feed.server  # noqa: F401
    is_reload = _server is not None
    _server = assemble(conf)
    if is_reload:
        gc.unfreeze()  # the replaced server can be collected
    gc.collect()
    gc.freeze()  # the collector of a child would write to these objects, and so copy their pages


def loaded() -> Configuration:
    """The configuration of the assembled server."""
    assert _server is not None
    return _server.conf


def report() -> None:
    """Log what the configuration files have that is without effect, and at DEBUG the values of all options."""
    assert _server is not None
    report_options(_server, _agent_options)
    _server.conf.log_opt_values(LOG, logging.DEBUG)  # without the values of secret options


def _agent_options() -> Groups:
    from neutrino.agent.config import GROUPS  # loads a part of the agent, which is needed only for unknown options

    return GROUPS


class Successors:
    """Which replacement of a worker has begun, and which new worker serves: in memory that all processes share.

    Granian ends an old worker a moment after it has forked the new one. On a busy machine the new one listens seconds
    later: in between, a server with one worker would refuse connections, and so would all servers behind a load balancer
    whose certificates are renewed at once. So an old worker goes on until the new one listens.
    """

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 16)
        self._generation = 0  # of the processes that are forked from now on

    def begin(self) -> None:
        """In the supervisor, before it forks the worker that replaces another."""
        self._generation += 1
        self._write(0, self._generation)

    def serves(self) -> None:
        """In a new worker, when it listens."""
        self._write(8, max(self._generation, self._read(8)))

    @property
    def is_awaited(self) -> bool:
        """Whether a worker that replaces another does not listen yet. False where the server ends."""
        return self._read(8) < self._read(0)

    def _read(self, at: int) -> int:
        return int.from_bytes(self._shared[at : at + 8])

    def _write(self, at: int, number: int) -> None:
        self._shared[at : at + 8] = number.to_bytes(8)


class Respawns:
    """Granian's record of when it respawned each worker, by which it detects a crash loop.

    Granian treats two deaths of one worker within seconds as a loop and stops. A worker that the OOM killer ended twice
    must not take the network API down: here nothing is recorded until MAX_DEATHS workers died within a minute. Granian
    gets the record of each worker that has died, and sets that of each worker before it starts it again.
    """

    def __init__(self, replaces: Callable[[], None] = lambda: None) -> None:
        """`replaces`: called before a worker is started that replaces one that has not died."""
        self._replaces = replaces
        self.deaths = 0  # of workers that ended by themselves
        self.before_respawn: Callable[[], None] = lambda: None  # called in the thread that forks
        self._recent: deque[float] = deque(maxlen=MAX_DEATHS)
        self._died: set[int] = set()
        self._recorded: dict[int, float] = {}

    def get(self, worker: int, default: float) -> float:
        self._died.add(worker)
        return self._recorded.get(worker, default)

    def __setitem__(self, worker: int, at: float) -> None:
        self.before_respawn()
        if worker not in self._died:  # replaced: frequent reloads, or many workers, are no crash loop
            self._replaces()
            return
        self._died.discard(worker)
        self.deaths += 1
        self._recent.append(at)
        if len(self._recent) == MAX_DEATHS and at - self._recent[0] <= WITHIN_SECONDS:
            self._recorded[worker] = at

    def clear(self) -> None:
        self._recorded.clear()


class Supervisor(Granian):  # type: ignore[misc,valid-type]
    """Granian's server with a higher limit on worker deaths, and with replacement of workers without a reload."""

    def __init__(self, *args: object, **options: object) -> None:
        global _successors  # granian passes nothing of ours to a forked worker
        super().__init__(*args, **options)
        _successors = Successors()
        self.respawned_wrks = self.respawns = Respawns(_successors.begin)
        self._is_hangup = self._is_reload = False
        super().on_reload(self._begin_reload)

    def signal_handler_reload(self, *args: object, **more: object) -> None:
        self._is_hangup = True
        super().signal_handler_reload(*args, **more)

    def replace_workers(self) -> None:
        """Start new workers and end the old ones gracefully, one by one. From any thread."""
        super().signal_handler_reload()

    def on_reload(self, hook: Callable[[], object]) -> Callable[[], object]:
        """Call the hook after SIGHUP, not if workers are replaced: then the feed keeps its connections."""
        super().on_reload(lambda: hook() if self._is_reload else None)
        return hook

    def _begin_reload(self) -> None:
        # Cleared before the hooks run: a signal that arrives meanwhile causes another reload.
        self._is_reload, self._is_hangup = self._is_hangup, False


def notify_when_ready(host: str, port: int) -> None:
    """Notify the service manager once a worker has built its application and the API accepts connections."""
    global _ready  # like `_server`: forked workers have nothing else of ours
    _ready = readable, _ = os.pipe()

    def wait() -> None:
        os.read(readable, 1)
        while not _accepts(host, port):
            time.sleep(POLL_SECONDS)
        notify("READY=1")

    threading.Thread(target=wait, name="ready", daemon=True).start()


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except ConnectionRefusedError:
        return False
    except OSError:  # an address that cannot be connected to from here: a worker runs, and that is all that is known
        return True
    return True


# --- in a worker ------------------------------------------------------------------------------------------------------


def set_worker_signals() -> None:
    """Signals of a worker. Ctrl-C at a terminal reaches every process of the group, and a second signal makes granian's
    worker hang: it ends by its parent's SIGTERM only.
    """
    end_with_parent()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until granian sets its own handler


def application() -> Front:
    """Called by granian in each worker: the WSGI application."""
    # In all later threads too: only the one below receives it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    assert _server is not None
    # Granian's workers are multiprocessing's, which run finalizers at a regular end, and no atexit handlers.
    Finalize(None, _server.process.stop, exitpriority=0)
    built = _front(_server)
    threading.Thread(target=_forward_sigterm, args=(built.is_busy,), name="SIGTERM", daemon=True).start()
    port = _server.conf.bind_port
    threading.Thread(target=_announce_listening, args=(port,), name="listening", daemon=True).start()
    if _ready is not None:
        os.write(_ready[1], b".")
    return built


def _front(server: Server) -> Front:
    app, conf = application_of(server), server.conf
    max_body = conf.oslo_middleware.max_request_body_size
    front = Front(app, config.api_threads(conf), max_body, server.db.adopt, server.db.leave)
    limits = Limits(conf.request_body_timeout, conf.client_min_rate)
    Watch(conf.bind_port, limits, front.in_progress, server.stop).start()
    return front


def _announce_listening(port: int) -> None:
    """Granian has no hook for it. Limited in time: a worker that is replaced waits for no longer either."""
    assert _successors is not None
    until = time.monotonic() + SUCCESSOR_SECONDS
    while time.monotonic() < until:
        if _listens(port):
            _successors.serves()
            return
        time.sleep(POLL_SECONDS)


def _listens(port: int) -> bool:
    """Whether this process has a socket of its own that listens at the port."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # it is closed by now, or no socket
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as copy:
                if copy.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                if copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and copy.getsockname()[1] == port:
                    return True
    return False


def _forward_sigterm(is_busy: Callable[[], bool]) -> None:
    """Receive SIGTERM, and call granian's handler.

    Granian misses a SIGTERM that arrives between setting its handler and serving: the worker would run until it is killed.
    A second call while it completes requests makes it forget them, and hang until it is killed. So it is called when
    granian surely serves, and again only while no request is in progress. A worker that is replaced serves until the new
    one does.
    """
    serving = time.monotonic() + SERVING_SECONDS
    while not callable(handler := signal.getsignal(signal.SIGTERM)):
        if signal.sigtimedwait({signal.SIGTERM}, POLL_SECONDS) is not None:
            os._exit(0)  # granian has no handler yet, so no request is being served
    signal.sigwait({signal.SIGTERM})
    until = time.monotonic() + SUCCESSOR_SECONDS
    while _successors is not None and _successors.is_awaited and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    time.sleep(max(0.0, serving - time.monotonic()))
    handler(signal.SIGTERM, None)
    while True:  # until the process ends
        time.sleep(REPEAT_SECONDS)
        if not is_busy():
            handler(signal.SIGTERM, None)
