"""`neutrino up`: the whole service on this machine with built-in defaults, until Ctrl-C."""

import argparse
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from neutrino import __version__, private
from neutrino.cli import preflight, server
from neutrino.cli.child_process import Work
from neutrino.cli.errors import CommandError, one_line, print_error, unwind_on_sigterm
from neutrino.cli.up.machine import RUN_FILE, Run, choose_datapath
from neutrino.cli.up.next_steps import next_steps
from neutrino.lab.errors import LabError, locked
from neutrino.lab.settings import LabSettings, render_clouds, render_server


def up(args: argparse.Namespace) -> None:
    directory, config_files, agent_files = Path(args.state).absolute(), args.config_file, args.agent_config_file
    preflight.check_files([*config_files, *agent_files])
    preflight.check_directory(directory)
    running_already = f"neutrino up is already running with state directory {directory}: end it, or use --state"
    with locked(directory / "lock", running_already), contextlib.ExitStack() as stack:
        # The user's files last: in oslo.config the last value of an option wins.
        files = [_write_configuration(directory, args.port), *config_files]
        conf = server.prepare(files, logging.WARNING, "use --port")
        if conf.use_ssl:
            raise CommandError("use_ssl: neutrino up serves its own machine without TLS; use neutrino server")
        host = f"[{conf.bind_host}]" if ":" in conf.bind_host else conf.bind_host
        url = f"http://{host}:{conf.bind_port}"
        print(f"neutrino {__version__} starts on {url}; its files are in {directory}", flush=True)
        unwind_on_sigterm()  # until granian sets its own handler
        run = Run(str(directory), os.getpid(), url, conf.auth_strategy == "noauth")
        children: dict[str, Work] = {}
        if not args.no_dataplane:
            run = _wire(stack, run, agent_files)
        if run.host:
            children["agent"] = lambda: run.run_agent(files, [str(directory / "agent.conf"), *agent_files])
        if run.no_auth:
            (directory / "clouds.yaml").write_text(render_clouds(url))
        record = directory / RUN_FILE
        record.write_bytes(msgspec.json.encode(run))
        stack.callback(record.unlink, missing_ok=True)
        if run.host and run.no_auth:
            stack.callback(_unplug_instances, run)
        threading.Thread(target=next_steps, args=[run], daemon=True, name="next steps").start()
        stack.callback(_ignore_signals)  # called first: a second Ctrl-C must not interrupt the cleanup
        server.run(conf, files, children, quiet=True)


def _write_configuration(directory: Path, port: int) -> str:
    """Write the server's configuration file; returns its path."""
    path, log = directory / "neutrino.conf", directory / "log"
    try:
        log.mkdir(exist_ok=True)
        private.make_file(path)
        path.write_text(render_server(LabSettings(port=port), directory, os.cpu_count() or 1, log / "server.log"))
    except OSError as error:
        raise CommandError(f"cannot write files in {directory}: {error.strerror}") from None
    return str(path)


def _wire(stack: contextlib.ExitStack, run: Run, agent_files: Sequence[str]) -> Run:
    """Start the switch of the run; if networks cannot be wired here, print the reason and return the run unchanged."""
    from neutrino.cli.agent import check  # loads the agent, which `--no-dataplane` does not need

    try:
        wired = replace(run, host=os.uname().nodename, datapath=choose_datapath(run.state))
        own = [wired.write_agent_configuration(), *agent_files]
        check(own)
        stack.enter_context(wired.wired(own))
    except LabError as error:
        print_error(f"networks are not wired on this machine: {one_line(error)}")
        return run
    return wired


def _unplug_instances(run: Run) -> None:
    """Unplug the instances. Their records stay, and the next start plugs them again."""
    instances = run.instances()
    names = [vm.name for vm in instances.vms.all()]
    if names:
        with contextlib.suppress(LabError):
            instances.unplug(names, run.host)


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
