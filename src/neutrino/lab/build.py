"""Creating and removing a lab.

`up` creates namespaces, then the fabric, then starts the server and, for all hosts in parallel, Open vSwitch and agent. If
a step fails, everything is removed. `down` needs no record of what was created: devices, named namespaces and mounts are in
the namespaces of the lab's processes (see `hosts.processes`) and disappear with them, which leaves only the directory.
"""

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import msgspec

from neutrino import private
from neutrino.lab import keystone
from neutrino.lab.errors import LabError, locked
from neutrino.lab.hosts import processes
from neutrino.lab.hosts.fabric import apply_fabric
from neutrino.lab.lab import Lab
from neutrino.lab.settings import (
    EXTERNAL,
    FABRIC,
    LabPaths,
    check,
    render_agent,
    render_clouds,
    render_server,
    render_server_keystone,
)

Output = Callable[[str], None]
SERVER_WORKERS = 2


def up(lab: Lab, output: Output = lambda text: None) -> None:
    """Create the lab, and return when the API responds and all agents are alive."""
    check(lab.settings)
    check_unused(lab.paths)
    make_directory(lab.paths)
    with _locked(lab.paths):
        check_unused(lab.paths)  # again: another command may have created it before this one had the lock
        try:
            _build(lab, output)
        except BaseException:
            output("failed; removing what was created")
            _remove(lab.paths)
            raise


def down(state: str | os.PathLike[str], output: Output = lambda text: None) -> None:
    """Remove the lab in the directory, in whatever state it is."""
    paths = LabPaths(Path(state).absolute())
    if os.environ.get(processes.ENVIRONMENT) == str(paths.state):
        raise LabError("this shell is inside the lab and would be killed with it: run the command outside")
    if paths.state.exists():
        # The processes of a running lab whose directory was deleted create files in it again.
        if not _is_lab_directory(paths) and not processes.read_members(paths.state):
            raise LabError(f"{paths.state} is not the directory of a lab")
        with _locked(paths):
            ended = _remove(paths)
    else:
        ended = processes.end_all(paths.state)  # a user may have deleted the directory of a running lab
        if not ended:
            output(f"there is no lab in {paths.state}")
            return
    output(f"removed the lab in {paths.state}: {ended} processes, with their namespaces and files")


# --- up ---------------------------------------------------------------------------------------------------------------


def _build(lab: Lab, output: Output) -> None:
    started, settings = time.monotonic(), lab.settings

    def progress(text: str) -> None:
        output(f"{time.monotonic() - started:5.1f} s  {text}")

    write_files(lab)
    lab.spawn_keystone()  # first: it takes longest
    with ThreadPoolExecutor(max_workers=min(settings.hosts + 1, 8), thread_name_prefix="lab") as pool:
        make_namespaces(lab, pool)
        progress(f"{', '.join(lab.hosts)} and the networks between them")
        # The server and the switches need seconds to start, and do not need each other.
        server = pool.submit(start_server, lab)
        switches = {host: pool.submit(lab.ovs(host).start) for host in lab.hosts}
        for host, switch in switches.items():
            switch.result()
            progress(f"{host}: Open vSwitch")
        server.result()
        for host in lab.hosts if "metadata" in settings.roles else ():
            lab.start_nova(host)
        for host in lab.hosts:
            lab.spawn_agent(host)
        if settings.keystone:
            set_up_keystone(lab)
            progress(f"Keystone on {settings.keystone_url}")
        lab.wait_for_server()
        progress(f"the API on {settings.url}")
    for host in lab.hosts:
        lab.wait_for_agent(host)
        progress(f"{host}: agent")


def make_namespaces(lab: Lab, pool: Executor) -> None:
    """Create the namespaces of the hosts and of the external machine, and the networks between them."""
    names = (FABRIC, EXTERNAL, *lab.hosts)
    holders = dict(zip(names, pool.map(lab.processes.hold, names), strict=True))
    hosts = {host: holders[host] for host in lab.hosts}
    apply_fabric(holders[FABRIC], hosts, holders[EXTERNAL], lab.settings.mtu)


def start_server(lab: Lab) -> None:
    """Create the database and the hosts' credentials, then start the server: agents that start meanwhile need both."""
    from neutrino.server.db import schema
    from neutrino.server.db.session import Database
    from neutrino.server.feed.connections.credentials import Credentials

    db = Database(f"sqlite:///{lab.paths.server}/neutrino.sqlite")
    try:
        schema.ensure(db)
        credentials = Credentials(db)
        for host in lab.hosts:
            _write_secret(lab.paths.host(host) / "credential", credentials.add(host, lab.settings.roles))
    finally:
        db.close()
    lab.spawn_server()


def set_up_keystone(lab: Lab) -> None:
    """Wait for Keystone, and create its projects and users."""
    lab.wait_for_keystone()
    keystone.set_up(lab.settings.keystone_url, lab.settings.url, keystone.read_passwords(lab.paths.passwords))


def write_files(lab: Lab) -> None:
    """Write the configuration of the lab's own server and agents, in a directory of the lab."""
    paths, settings = lab.paths, lab.settings
    paths.settings.write_bytes(msgspec.json.encode(settings))  # first: it marks the directory as a lab's
    for directory in (paths.mark, paths.server, paths.vms, paths.pids, paths.logs):
        directory.mkdir()
    (paths.server / "neutrino.conf").write_text(render_server(settings, paths.server, SERVER_WORKERS))
    _write_clouds(lab)
    secret = secrets.token_urlsafe()
    _write_secret(paths.metadata_secret, secret)
    for host in lab.hosts:
        paths.host(host).mkdir()
        _write_secret(paths.host(host) / "agent.conf", render_agent(settings, paths, host, secret))


def _write_clouds(lab: Lab) -> None:
    paths, settings = lab.paths, lab.settings
    if not settings.keystone:
        paths.clouds.write_text(render_clouds(settings.url))
        return
    private.make_directory(paths.keystone)
    keystone.write_config(paths.keystone)
    passwords = keystone.write_passwords(paths.passwords)
    _write_secret(paths.clouds, keystone.render_clouds(settings.keystone_url, passwords))
    own = render_server_keystone(settings, keystone.SERVICE, passwords[keystone.SERVICE])
    _write_secret(paths.server_keystone, own)


def _write_secret(path: Path, text: str) -> None:
    private.make_file(path)  # before it has content: with a chmod after writing, other users could open it in between
    path.write_text(f"{text}\n")


# --- the directory ----------------------------------------------------------------------------------------------------


def check_unused(paths: LabPaths) -> None:
    if paths.settings.exists():
        raise LabError(f"a lab exists in {paths.state}: remove it with neutrino lab down --state {paths.state}")


def make_directory(paths: LabPaths) -> None:
    """Create the lab's directory, or refuse one that has other files."""
    try:
        paths.state.mkdir(parents=True, exist_ok=True)
        if not _is_lab_directory(paths):
            raise LabError(f"{paths.state} is not empty: a lab needs a directory of its own")
    except OSError as error:
        raise LabError(f"cannot create the lab in {paths.state}: {error.strerror}") from None


def _is_lab_directory(paths: LabPaths) -> bool:
    """Whether the directory is a lab's or empty; any other is neither used nor removed."""
    return paths.lock.exists() or paths.settings.exists() or not any(paths.state.iterdir())


def _locked(paths: LabPaths) -> contextlib.AbstractContextManager[None]:
    """Only one command at a time creates or removes a lab."""
    return locked(paths.lock, f"another command is creating or removing the lab in {paths.state}")


def _remove(paths: LabPaths) -> int:
    ended = processes.end_all(paths.state)
    shutil.rmtree(paths.state)
    return ended
