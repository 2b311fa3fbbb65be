"""`neutrino up`: the whole service on this machine with built-in defaults, until Ctrl-C."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from oslo_config import cfg

from neutrino import __version__, private
from neutrino.cli import preflight
from neutrino.cli.child_process import Work
from neutrino.cli.errors import CommandError, one_line, print_error
from neutrino.cli.up.machine import Machine, this_machine
from neutrino.cli.up.next_steps import NextSteps
from neutrino.cli.up.run_state import RunState, machine_instances
from neutrino.lab.config_files import CLOUDS, escaped, render_server
from neutrino.lab.errors import LabError

LOGGING = """\
[DEFAULT]
log_file = {state}/log/server.log
"""


def up(
    state: str, port: int, config_files: Sequence[str], *, dataplane: bool = True, agent_files: Sequence[str] = ()
) -> int:
    from neutrino.cli import server

    directory = Path(state).absolute()
    preflight.check_files([*config_files, *agent_files])
    preflight.check_directory(directory)
    with _locked(directory), contextlib.ExitStack() as stack:
        files = [*_write_configuration(directory, port), *config_files]
        prepared = server.prepare(files, logging.WARNING, "use --port")
        url = _url(prepared.conf)
        print(f"neutrino {__version__} starts on {url}; its files are in {directory}", flush=True)
        _unwind_on_sigterm()
        machine = _wire(stack, directory, agent_files) if dataplane else None
        children: dict[str, Work] = {}
        if machine is not None:
            own = [str(directory / "agent.conf"), *agent_files]
            children["agent"] = lambda: machine.run_agent(files, own)
        no_auth = bool(prepared.conf.auth_strategy == "noauth")
        running = RunState(os.getpid(), url, no_auth, machine.host if machine else "")
        if no_auth:
            (directory / "clouds.yaml").write_text(CLOUDS.format(url=url))
        running.write(directory)
        stack.callback(running.remove, directory)
        if machine is not None and no_auth:
            stack.callback(_unplug_instances, directory, running)
        steps = NextSteps(directory, running, machine.datapath if machine else "")
        threading.Thread(target=steps.run, daemon=True, name="next steps").start()
        stack.callback(_ignore_signals)  # called first: a second Ctrl-C must not interrupt the cleanup
        return server.run(prepared, children, quiet=True)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Only one run per state directory; the kernel releases the lock of a killed run."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(
                f"neutrino up is already running with state directory {directory}: end it, or use --state"
            ) from None
        yield
    finally:
        os.close(descriptor)


def _write_configuration(directory: Path, port: int) -> list[str]:
    contents = {
        "neutrino.conf": render_server(port, directory),
        "logging.conf": LOGGING.format(state=escaped(directory)),
    }
    try:
        (directory / "log").mkdir(exist_ok=True)
        for name, content in contents.items():
            private.make_file(directory / name)
            (directory / name).write_text(content)
    except OSError as error:
        raise CommandError(f"cannot write files in {directory}: {error.strerror}") from None
    return [str(directory / name) for name in contents]


def _wire(stack: contextlib.ExitStack, directory: Path, agent_files: Sequence[str]) -> Machine | None:
    """This machine with its switch running; None, and the reason printed, if networks cannot be wired on it."""
    from neutrino.cli.agent import check

    try:
        machine = this_machine(directory)
        own = [str(machine.write_agent_configuration()), *agent_files]
        check(own)
        stack.enter_context(machine.wired(own))
    except LabError as error:
        print_error(f"networks are not wired on this machine: {one_line(error)}")
        return None
    return machine


def _unplug_instances(directory: Path, running: RunState) -> None:
    """Unplug the instances. Their records stay, and the next start plugs them again."""
    instances = machine_instances(directory, running)
    names = [vm.name for vm in instances.vms.all()]
    if names:
        with contextlib.suppress(LabError):
            instances.unplug(names, running.host)


def _unwind_on_sigterm() -> None:
    """Until granian sets its handler, have SIGTERM raise an exception, as Ctrl-C does: by default it would end the process
    without the cleanup of the exit stack.
    """

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _url(conf: cfg.ConfigOpts) -> str:
    host = f"[{conf.bind_host}]" if ":" in conf.bind_host else conf.bind_host
    return f"http://{host}:{conf.bind_port}"
