"""`neutrino server`: the API on granian, one process per CPU, and the feed in a process beside it.

This process only loads the code and watches over the workers; it never opens the database.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence

from oslo_config import cfg

from neutrino.cli.feed import PR_SET_PDEATHSIG, beside
from neutrino.server import config
from neutrino.server.feed.listening import addresses

WORKER = "neutrino.cli.worker:application"


def serve(config_files: Sequence[str], starting: Callable[[cfg.ConfigOpts], None] = lambda conf: None) -> int:
    """`starting` is called when nothing speaks against the start any more."""
    from granian.constants import Interfaces

    from neutrino.cli.supervisor import Supervisor

    for name in config_files:
        if not os.path.isfile(name):
            print(f"neutrino: there is no configuration file {name}", file=sys.stderr)
            return 2
    try:
        conf = _configuration(config_files)
        config.check_listening(conf)
        if conf.feed.run:
            addresses(conf)
    except (cfg.Error, config.RefusedToStart) as error:
        print(f"neutrino: {error}", file=sys.stderr)
        return 2
    try:
        _check_free(conf.bind_host, conf.bind_port)
    except OSError as error:
        reason = error.strerror or error
        print(f"neutrino: cannot listen on {conf.bind_host} port {conf.bind_port}: {reason}", file=sys.stderr)
        return 1
    os.environ["NEUTRINO_CONFIG_FILES"] = ":".join(os.path.abspath(name) for name in config_files)
    starting(conf)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    os.register_at_fork(after_in_child=worker_signals)
    _load_for_all()
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
        workers_kill_timeout=10,
        respawn_failed_workers=True,
        respawn_interval=0.2,
        process_name="neutrino-server",
    )
    with beside(config_files) if conf.feed.run else contextlib.nullcontext():
        api.serve()
    return 0


def _load_for_all() -> None:
    """The code that every worker needs, loaded once: workers are forked, so they share its memory and start at once."""
    import oslo_middleware  # noqa: F401

    import neutrino.server.main  # noqa: F401

    gc.collect()
    gc.freeze()  # the collector of a worker leaves alone, and so leaves shared, what is there now


def worker_signals() -> None:
    """A worker ends by SIGTERM from its parent, once: granian's waits for ever after a second signal, which Ctrl-C at a
    terminal would be, and does not see one that comes before it serves.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # nor does it outlive the one that watches over it
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until granian's own handler is there


def _check_free(host: str, port: int) -> None:
    """Granian only says this with a stack trace."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def _configuration(files: Sequence[str]) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf([], project="neutrino", default_config_files=list(files), default_config_dirs=[])
    return conf
