"""Bringing a lab up and taking it down.

Up: namespaces, then wires, then Open vSwitch and agent of all hosts at the same time, while the server starts. What fails
half-way is taken down again. Down needs no memory of what was made: everything lives in the namespaces of processes that
the kernel knows as the lab's (see `processes`), and goes with them; what is left is a directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from neutrino.lab import processes
from neutrino.lab.configuration import render_agent, render_clouds, render_server
from neutrino.lab.errors import LabError
from neutrino.lab.lab import Lab
from neutrino.lab.programs import check_datapath, check_port, check_programs, check_root
from neutrino.lab.settings import EXTERNAL, WIRE, Places, Settings, check
from neutrino.lab.wires import apply_wires

Say = Callable[[str], None]


def up(state: str | os.PathLike[str], settings: Settings, say: Say = lambda text: None) -> Lab:
    """A new lab in the directory, with everything in it ready."""
    check(settings)
    check_root()
    check_programs()
    check_datapath(settings.datapath)
    places = Places(Path(state).absolute())
    if places.lab.exists():
        raise _already(places)
    check_port(settings.port)
    _make_directory(places)
    with _alone(places):
        if places.lab.exists():
            raise _already(places)
        try:
            return _build(places, settings, say)
        except BaseException:
            say("this did not work; what was made is taken down again")
            _remove(places)
            raise


def _already(places: Places) -> LabError:
    return LabError(f"there is a lab in {places.state} already: neutrino lab down --state {places.state} ends it")


def down(state: str | os.PathLike[str], say: Say = lambda text: None) -> None:
    """Nothing is left of the lab in the directory, however it came to be as it is."""
    check_root()
    places = Places(Path(state).absolute())
    if os.environ.get(processes.ENVIRONMENT) == str(places.state):
        raise LabError("this is a shell inside the lab, which would end with it: run this outside")
    if places.state.exists() and not _is_ours(places):
        raise LabError(f"{places.state} is no lab's directory")
    if places.state.exists():
        with _alone(places):
            ended = _remove(places)
    else:
        ended = processes.end_all(places.state)  # its directory may have been deleted by hand
        if not ended:
            say(f"there is no lab in {places.state}")
            return
    say(f"the lab in {places.state} is gone: {ended} processes, with their namespaces and files")


# --- up ---------------------------------------------------------------------------------------------------------------


def _build(places: Places, settings: Settings, say: Say) -> Lab:
    started = time.monotonic()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - started:5.1f} s  {text}")

    _write_files(places, settings)
    lab = Lab(places, settings)
    with ThreadPoolExecutor(max_workers=min(settings.hosts + 1, 8), thread_name_prefix="lab") as pool:
        holders = _make_namespaces(lab, pool)
        apply_wires(holders[WIRE], {host: holders[host] for host in lab.hosts}, holders[EXTERNAL], settings.mtu)
        tell(f"{', '.join(lab.hosts)} and the wires between them")
        server = pool.submit(_start_server, lab)
        switches = {host: pool.submit(lab.start_ovs, host) for host in lab.hosts}
        for host, switch in switches.items():
            switch.result()
            tell(f"{host}: Open vSwitch")
        server.result()
        for host in lab.hosts if settings.serves_metadata else ():
            lab.start_nova(host)
        for host in lab.hosts:
            lab.start_agent(host, {}, wait=False)
        lab.wait_for_server()
        tell(f"the API on {settings.url}")
    for host in lab.hosts:
        lab.wait_for_agent(host)
        tell(f"{host}: agent")
    return lab


def _make_namespaces(lab: Lab, pool: ThreadPoolExecutor) -> dict[str, int]:
    """By name, the process that holds them."""
    names = (WIRE, EXTERNAL, *lab.hosts)
    return dict(zip(names, pool.map(lab.processes.hold, names), strict=True))


def _start_server(lab: Lab) -> None:
    """The hosts' credentials are made before anybody asks for them; that also makes the database."""
    from neutrino.server.db import schema
    from neutrino.server.db.session import Database
    from neutrino.server.feed.credentials import Credentials

    db = Database(f"sqlite:///{lab.places.server}/neutrino.sqlite")
    try:
        schema.ensure(db)
        credentials = Credentials(db)
        for host in lab.hosts:
            _write_secret(lab.places.host(host) / "credential", credentials.add(host, lab.settings.roles))
    finally:
        db.close()
    lab.start_server(wait=False)


def _write_files(places: Places, settings: Settings) -> None:
    places.lab.write_bytes(msgspec.json.encode(settings))  # the first: from now on this is a lab's directory
    for directory in (places.mark, places.server, places.vms, places.pids, places.logs):
        directory.mkdir()
    common, own = render_server(settings, places)
    (places.server / "neutrino.conf").write_text(common)
    (places.server / "lab.conf").write_text(own)
    places.clouds.write_text(render_clouds(settings))
    secret = secrets.token_urlsafe()
    _write_secret(places.metadata_secret, secret)
    for host in settings.host_names:
        places.host(host).mkdir()
        _write_secret(places.host(host) / "agent.conf", render_agent(settings, places, host, secret))


def _write_secret(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{text}\n")


# --- the directory ----------------------------------------------------------------------------------------------------


def _make_directory(places: Places) -> None:
    try:
        places.state.mkdir(parents=True, exist_ok=True)
        if not _is_ours(places):
            raise LabError(f"{places.state} is not empty: a lab needs a directory of its own")
    except OSError as error:
        raise LabError(f"a lab cannot be kept in {places.state}: {error.strerror}") from None


def _is_ours(places: Places) -> bool:
    return places.lock.exists() or places.lab.exists() or not any(places.state.iterdir())


@contextlib.contextmanager
def _alone(places: Places) -> Iterator[None]:
    """Only one command makes or removes a lab. The kernel takes the lock from one that dies."""
    with places.lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"another command is making or removing the lab in {places.state} right now") from None
        yield


def _remove(places: Places) -> int:
    ended = processes.end_all(places.state)
    shutil.rmtree(places.state)
    return ended
