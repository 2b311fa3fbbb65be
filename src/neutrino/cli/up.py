"""`neutrino up`: the service on this machine, with defaults that need no other, until Ctrl-C."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from oslo_config import cfg

from neutrino import __version__, private
from neutrino.cli import preflight
from neutrino.cli.beside import Work
from neutrino.cli.failures import CannotStart
from neutrino.cli.instances import Running, machine_instances
from neutrino.cli.machine import Machine, this_machine
from neutrino.cli.ready import Ready
from neutrino.cli.switch import NoDataplane
from neutrino.lab.errors import LabError

CONFIG = """\
# Written by the neutrino command. Options of your own go into a file given with --config-file.
[DEFAULT]
bind_host = 127.0.0.1
bind_port = {port}
auth_strategy = noauth
state_path = {state}

[ml2]
tenant_network_types = vxlan

[ml2_type_vlan]
network_vlan_ranges = physnet1:100:199

# One person tries this out on one machine: nothing here is scarce.
[quotas]
quota_network = -1
quota_subnet = -1
quota_port = -1
quota_security_group = -1
quota_security_group_rule = -1
quota_rbac_policy = -1
quota_router = -1
quota_floatingip = -1
"""
LOGGING = """\
[DEFAULT]
log_file = {state}/log/server.log
"""

CLOUDS = """\
clouds:
  neutrino:
    auth_type: none
    network_endpoint_override: {url}
    auth:
      endpoint: {url}
"""
ROLES = ("l2", "dhcp", "l3", "metadata")


def up(
    state: str, port: int, config_files: Sequence[str], *, dataplane: bool = True, agent_files: Sequence[str] = ()
) -> int:
    from neutrino.cli import server

    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # `su` does not add them everywhere
    directory = Path(state).absolute()
    preflight.check_files([*config_files, *agent_files])
    preflight.check_directory(directory)
    with _alone(directory), contextlib.ExitStack() as stack:
        files = [*_write_configuration(directory, port), *config_files]
        prepared = server.prepare(files, logging.WARNING, "use --port")
        url = _url(prepared.conf)
        print(f"neutrino {__version__} starts on {url}; its files are in {directory}", flush=True)
        _raise_on_sigterm()
        machine = _wire(stack, directory, agent_files) if dataplane else None
        further: dict[str, Work] = {}
        if machine is not None:
            own = [str(directory / "agent.conf"), *agent_files]
            further["agent"] = lambda: machine.run_agent(files, own)
        running = Running(os.getpid(), url, _has_no_auth(prepared.conf), machine.host if machine else "")
        if running.is_open:
            (directory / "clouds.yaml").write_text(CLOUDS.format(url=url))
        running.write(directory)
        stack.callback(running.remove, directory)
        if machine is not None and running.is_open:
            stack.callback(_unplug_instances, directory, machine, url)
        ready = Ready(directory, running, machine.datapath if machine else "")
        threading.Thread(target=ready.tell, daemon=True, name="ready").start()
        stack.callback(_ignore_signals)  # the first thing of the end: what was created is removed to the last
        return server.run(prepared, further, quiet=True)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One run for a state directory; the kernel releases the lock of one that is killed."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(
                f"neutrino up runs already with its files in {directory}: end it, or use --state"
            ) from None
        yield
    finally:
        os.close(descriptor)


def _write_configuration(directory: Path, port: int) -> list[str]:
    text = str(directory).replace("$", "$$")
    written = {"neutrino.conf": CONFIG.format(port=port, state=text), "logging.conf": LOGGING.format(state=text)}
    try:
        (directory / "log").mkdir(exist_ok=True)
        for name, content in written.items():
            private.make_file(directory / name)
            (directory / name).write_text(content)
    except OSError as error:
        raise CannotStart(f"cannot keep files in {directory}: {error.strerror}") from None
    return [str(directory / name) for name in written]


def _wire(stack: contextlib.ExitStack, directory: Path, agent_files: Sequence[str]) -> Machine | None:
    """This machine with its switch running; where it cannot wire networks, the API is served alone."""
    from neutrino.cli.agent import check

    try:
        machine = this_machine(directory, ROLES)
        own = [str(machine.write_agent_configuration()), *agent_files]
        check(own)
        stack.enter_context(machine.wired(own))
    except NoDataplane as error:
        print(f"neutrino: networks are not wired on this machine: {error}", file=sys.stderr, flush=True)
        return None
    return machine


def _unplug_instances(directory: Path, machine: Machine, url: str) -> None:
    """Their records stay, and the next start plugs them again."""
    instances = machine_instances(directory, Running(os.getpid(), url, True, machine.host))
    names = [vm.name for vm in instances.vms.all()]
    if names:
        with contextlib.suppress(LabError):
            instances.unplug(names, machine.host)


def _raise_on_sigterm() -> None:
    """Until granian has its own handler, an end by SIGTERM has to unwind as one by Ctrl-C does."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _has_no_auth(conf: cfg.ConfigOpts) -> bool:
    return bool(conf.auth_strategy == "noauth")


def _url(conf: cfg.ConfigOpts) -> str:
    host = f"[{conf.bind_host}]" if ":" in conf.bind_host else conf.bind_host
    return f"http://{host}:{conf.bind_port}"
