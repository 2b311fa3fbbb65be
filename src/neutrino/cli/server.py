"""`neutrino server`: the API on granian, one process per CPU, and the feed in a process beside it.

This process only loads the code and watches over the others, which are forked from it; it never opens the database.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence

from oslo_config import cfg

from neutrino.cli.beside import PR_SET_PDEATHSIG, Beside, Work
from neutrino.cli.feed import feed
from neutrino.server import config
from neutrino.server.feed.listening import addresses

LOG = logging.getLogger(__name__)
WORKER = "neutrino.cli.worker:application"


def serve(
    config_files: Sequence[str],
    starting: Callable[[cfg.ConfigOpts], None] = lambda conf: None,
    further: Mapping[str, Work] | None = None,
) -> int:
    """`starting` is called when nothing speaks against the start any more; `further` processes run beside the API's."""
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
    files = [os.path.abspath(name) for name in config_files]
    os.environ["NEUTRINO_CONFIG_FILES"] = ":".join(files)
    starting(conf)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    os.register_at_fork(after_in_child=worker_signals)
    from neutrino.cli import image  # all of the server: not before the configuration is known to be good

    try:
        image.load(files)
    except (cfg.Error, config.RefusedToStart, ValueError, OSError) as error:
        print(f"neutrino: {error}", file=sys.stderr)
        return 2
    except Exception:
        LOG.exception("the server cannot be put together")
        return 1
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
    api.on_reload(lambda: _load_anew(files))
    with contextlib.ExitStack() as stack:
        if conf.feed.run:
            api.on_reload(stack.enter_context(Beside("feed", lambda: feed(files, image.loaded()))).restart)
        for name, work in (further or {}).items():
            stack.enter_context(Beside(name, work))
        api.serve()
    return 0


def _load_anew(files: Sequence[str]) -> None:
    """The configuration as it is now, for all that start from here on. One that is wrong does not end who serves."""
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
