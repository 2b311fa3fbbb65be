"""`neutrino server`: the API on granian (a worker per CPU) with the feed in a child process; `neutrino feed`: the feed.

The supervising process loads the code and forks the others; it never opens the database, as connections must not be shared
across a fork.
"""

import argparse
import contextlib
import logging
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from neutrino import __version__, logs
from neutrino.cli import preflight
from neutrino.cli.child_process import ChildProcess, Work
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.installed import SERVER_FILE, default_files
from neutrino.configuration import findings
from neutrino.configuration.options import Configuration
from neutrino.errors import RefusedToStart
from neutrino.feed.address import Address
from neutrino.metrics import catalog
from neutrino.metrics.listener import serving
from neutrino.metrics.process import start
from neutrino.metrics.server import ServerMetrics
from neutrino.metrics.server import prepare as prepare_metrics
from neutrino.notify import notify
from neutrino.server import config, tls
from neutrino.server.feed.connections.listeners import addresses, server_tls
from neutrino.tls import TlsFiles

LOG = logging.getLogger(__name__)
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
FOREVER = 10 * 365 * 86400  # seconds


def serve(args: argparse.Namespace) -> None:
    files = default_files(args.config_file, SERVER_FILE)
    run(prepare(files), files)


def prepare(files: Sequence[str], log_level: int = logging.INFO, port_fix: str = "set bind_port") -> Configuration:
    """Check everything before anything is started. `port_fix`: how to choose another port."""
    preflight.check_files(files)
    conf = config.configuration(files)
    config.check_values(conf)
    config.check_listening(conf)
    tls.api_tls(conf)
    feed_addresses = _feed_addresses(conf) if conf.feed.run else []
    preflight.check_port(conf.bind_host, conf.bind_port, f"stop what listens there, or {port_fix}")
    preflight.check_feed_addresses(feed_addresses)
    logging.basicConfig(level=log_level, format=LOG_FORMAT, force=True)  # oslo.log has set a handler without a format
    if logs.is_configured(conf):
        logs.setup(conf)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    _set_log_level(conf)
    logging.getLogger("stevedore").setLevel(logging.ERROR)  # a plugin that does not load is in our own error
    from neutrino.cli import workers  # imports the whole server: only once the configuration is valid

    try:
        workers.load(files)
    except (ValueError, OSError, ImportError) as error:
        raise CommandError(str(error), INVALID) from None
    preflight.check_database(conf)  # last, as it upgrades the schema: a start that fails otherwise changes nothing
    workers.report()
    return conf


def run(
    conf: Configuration,
    config_files: Sequence[str],
    children: Mapping[str, Work] | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT, with `children` as further child processes. `quiet`: no log of granian."""
    from neutrino.cli import workers
    from neutrino.cli.api_tls import ApiCertificate

    encryption = tls.api_tls(conf)
    files = [os.path.abspath(name) for name in config_files]
    multiprocessing.set_start_method("fork", force=True)  # not the default of Python 3.14: workers share the server
    os.register_at_fork(after_in_child=workers.set_worker_signals)
    api = _api(conf, encryption, quiet=quiet)
    # First, as granian calls them in this order: the feed restarts with the configuration that is loaded then.
    api.on_reload(lambda: _reload(files))
    with contextlib.ExitStack() as stack:
        _start_metrics(conf, api, stack)
        if encryption:
            certificate = ApiCertificate(api, encryption)
            stack.enter_context(certificate)
            api.on_reload(lambda: certificate.reload(workers.loaded()))
        if conf.feed.run:
            child = stack.enter_context(ChildProcess("feed", lambda: feed(workers.loaded())))
            api.on_reload(lambda: _restart_feed(child))
        for name, work in (children or {}).items():
            stack.enter_context(ChildProcess(name, work))
        workers.notify_when_ready(conf.bind_host, conf.bind_port)
        api.serve()


def _api(conf: Configuration, encryption: TlsFiles | None, *, quiet: bool) -> Any:
    """The supervisor of the API's workers, not started."""
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    from neutrino.cli import workers
    from neutrino.cli.api_tls import granian_options
    from neutrino.cli.slow_clients.front import CONNECTIONS, THREADS

    return workers.Supervisor(
        workers.TARGET,
        factory=True,
        address=conf.bind_host,
        port=conf.bind_port,
        interface=Interfaces.WSGI,
        websockets=False,
        workers=conf.api_workers or os.cpu_count() or 1,
        blocking_threads=THREADS,  # that wait for clients; `Front` lets `api_threads` of them handle requests
        backlog=1024,
        backpressure=CONNECTIONS,
        # Not HTTP/2: one connection would have many unfinished requests, and hyper has no time limit for its first bytes.
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=1000 * (conf.client_socket_timeout or FOREVER)),
        **granian_options(encryption),
        log_access=False,
        log_level=LogLevels.warning if quiet else LogLevels.info,
        workers_kill_timeout=conf.graceful_shutdown_timeout or None,
        respawn_failed_workers=True,
        respawn_interval=0.2,
        process_name="neutrino-server",
    )


def _start_metrics(conf: Configuration, api: Any, stack: contextlib.ExitStack) -> None:
    """Serve the metrics of all processes of this server. Before the first fork: workers find their directory."""
    if not conf.metrics.bind:
        return
    directory = config.metrics_directory(conf)
    try:
        prepare_metrics(directory)
    except OSError as error:
        LOG.warning("metrics are not served, as %s cannot be written: %s", directory, error.strerror or error)
        return
    registry = start("server", __version__)
    catalog.WORKERS.watch(lambda: float(sum(worker.is_alive() for worker in tuple(api.wrks))))
    catalog.WORKER_RESPAWNS.watch(lambda: float(api.respawns.deaths))
    stack.enter_context(serving(conf, ServerMetrics(registry, directory)))


def _reload(files: Sequence[str]) -> None:
    """Load the configuration for the workers that granian starts from now on; an invalid one leaves the old in force."""
    from neutrino.cli import workers

    try:
        workers.load(files)
    except Exception:
        LOG.exception("the configuration is invalid, the previous one stays in force")
        return
    _set_log_level(workers.loaded())
    workers.report()


def _restart_feed(child: ChildProcess) -> None:
    from neutrino.cli import workers

    try:
        _feed_addresses(workers.loaded())
    except RefusedToStart as error:
        LOG.error("the feed is not restarted and continues with its previous options: %s", error)
        return
    child.restart()


def _set_log_level(conf: Configuration) -> None:
    """Set the log level of this process; workers and the feed set up their logs by all options of oslo.log."""
    logging.getLogger("neutrino").setLevel(logging.DEBUG if conf.debug else logging.NOTSET)


# --- the feed ---------------------------------------------------------------------------------------------------------


def serve_feed(args: argparse.Namespace) -> None:
    """`neutrino feed`: all checks, then the feed until SIGTERM or SIGINT."""
    files = default_files(args.config_file, SERVER_FILE)
    preflight.check_files(files)
    conf = config.configuration(files)
    config.check_values(conf)
    findings.refuse(conf, findings.SERVER)
    preflight.check_feed_addresses(_feed_addresses(conf))
    preflight.check_database(conf)
    feed(conf, lambda: notify("READY=1"), alone=True)


def _feed_addresses(conf: Configuration) -> Sequence[Address]:
    server_tls(conf)  # raises if a certificate is missing or cannot be read
    return addresses(conf)


def feed(conf: Configuration, ready: Callable[[], object] = lambda: None, *, alone: bool = False) -> None:
    """`ready` is called once it listens. `alone`: not as a child of the server, which would serve its metrics."""
    from neutrino.server.feed.server import run

    try:
        logs.setup(conf)
        run(conf, ready, alone=alone)
    except OSError as error:
        raise CommandError(f"the feed cannot be served: {error}") from None
