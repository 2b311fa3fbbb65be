"""`neutrino server`: the API on granian, one process per CPU, and the feed in a process beside it.

This process only loads the code and watches over the others, which are forked from it; it never opens the database.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oslo_config import cfg

from neutrino.cli import preflight
from neutrino.cli.beside import PR_SET_PDEATHSIG, Beside, Work
from neutrino.cli.failures import REFUSED, CannotStart
from neutrino.cli.feed import feed
from neutrino.server import config
from neutrino.server.feed.listeners import addresses, server_tls

LOG = logging.getLogger(__name__)
WORKER = "neutrino.cli.worker:application"
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


@dataclass(frozen=True)
class Prepared:
    """A server that can start: its configuration is good, its addresses are free, its database is up to date."""

    conf: cfg.ConfigOpts
    files: Sequence[str]


def serve(config_files: Sequence[str]) -> int:
    return run(prepare(config_files))


def prepare(config_files: Sequence[str], log_level: int = logging.INFO, other_port: str = "set bind_port") -> Prepared:
    """Everything that speaks against a start is found here, before anything is started; CannotStart says what."""
    preflight.check_files(config_files)
    files = [os.path.abspath(name) for name in config_files]
    try:
        conf = _configuration(files)
        config.check_values(conf)
        config.check_listening(conf)
        feed_addresses = addresses(conf) if conf.feed.run else []
        if conf.feed.run:
            server_tls(conf)
    except (cfg.Error, config.RefusedToStart) as error:
        raise CannotStart(str(error), REFUSED) from None
    preflight.check_port(conf.bind_host, conf.bind_port, f"stop what listens there, or {other_port}")
    preflight.check_feed_addresses(feed_addresses)
    logging.basicConfig(level=log_level, format=LOG_FORMAT)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("stevedore").setLevel(logging.ERROR)  # a plugin that does not load is reported by our own error
    _load(files)
    preflight.check_database(conf)
    return Prepared(conf, files)


def _load(files: Sequence[str]) -> None:
    from neutrino.cli import image  # all of the server: not before the configuration is known to be good

    try:
        image.load(files)
    except (cfg.Error, config.RefusedToStart, ValueError, OSError, ImportError) as error:
        raise CannotStart(str(error), REFUSED) from None


def run(prepared: Prepared, further: Mapping[str, Work] | None = None, *, quiet: bool = False) -> int:
    """Serve until SIGTERM or SIGINT; `further` processes run beside the API's. `quiet`: no log of granian's."""
    from granian.constants import Interfaces
    from granian.log import LogLevels

    from neutrino.cli import image
    from neutrino.cli.supervisor import Supervisor

    conf, files = prepared.conf, prepared.files
    os.environ["NEUTRINO_CONFIG_FILES"] = ":".join(files)
    os.register_at_fork(after_in_child=worker_signals)
    api = Supervisor(
        WORKER,
        address=conf.bind_host,
        port=conf.bind_port,
        interface=Interfaces.WSGI,
        websockets=False,
        workers=conf.api_workers or os.cpu_count() or 1,
        blocking_threads=config.api_threads(conf),
        backlog=1024,
        log_access=False,
        log_level=LogLevels.warning if quiet else LogLevels.info,
        workers_kill_timeout=10,
        respawn_failed_workers=True,
        respawn_interval=0.2,
        process_name="neutrino-server",
    )
    api.on_reload(lambda: _load_anew(files))
    with contextlib.ExitStack() as stack:
        if conf.feed.run:
            api.on_reload(stack.enter_context(Beside("feed", lambda: feed(files, image.loaded()))).restart)
        for name, work in (further or {}).items():
            stack.enter_context(Beside(name, work))
        api.serve()
    return 0


def _load_anew(files: Sequence[str]) -> None:
    """Reload the configuration for the processes that start from here on. A wrong one leaves the old one in force."""
    from neutrino.cli import image

    try:
        image.load(files)
    except Exception:
        LOG.exception("the configuration cannot be used, the old one stays")


def worker_signals() -> None:
    """A worker ends by SIGTERM from its parent, once: granian's waits for ever after a second signal, which Ctrl-C at a
    terminal would be, and does not see one that comes before it serves.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # nor does it outlive the one that watches over it
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until granian's own handler is there


def _configuration(files: Sequence[str]) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf([], project="neutrino", default_config_files=list(files), default_config_dirs=[])
    return conf
