"""A virtual environment with only the packages of requirements.lock: every command works in it.

All other tests run where the test packages are installed too, which hide a dependency that requirements.lock lacks.
"""

from __future__ import annotations

import ast
import http.client
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.agent import Agent, wait_for_status
from tests.support.keystone import Keystone
from tests.support.machine import Machine
from tests.support.mariadb import MariaDB
from tests.support.neutrino import Caller, Neutrino, with_keystone
from tests.support.openvswitch import OpenVSwitch
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.process import wait_until

ROOT = Path(__file__).parents[2]
READY = re.compile("^Ctrl-C", re.MULTILINE)
IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `neutrino` command of a virtual environment with only the packages of requirements.lock."""
    directory = tmp_path_factory.mktemp("runtime")
    environment = directory / "venv"
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    packages = environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    for requirement in _locked("requirements.lock"):
        if requirement.marker is None or requirement.marker.evaluate():
            _copy(requirement, packages)
    source = directory / "source"  # a copy: building leaves files in the source tree
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src" / "neutrino", source / "src" / "neutrino")
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "--disable-pip-version-check"]
    _run(*pip, "install", "--quiet", "--no-compile", "--no-deps", "--no-build-isolation", str(source))
    _run(*pip, "check")  # no package lacks another
    return environment / "bin" / "neutrino"


def _locked(name: str) -> dict[Requirement, str]:
    """The packages of a lock, with their hashes."""
    lines = (ROOT / name).read_text().replace("\\\n", "").splitlines()
    parts = (line.partition("--hash") for line in lines if not line.startswith("#"))
    return {Requirement(package): hashes for package, _, hashes in parts}


def _copy(requirement: Requirement, packages: Path) -> None:
    """Install a package as it is here, with its compiled modules, in a tenth of the time that pip takes."""
    installed = importlib.metadata.distribution(requirement.name)
    assert requirement.specifier.contains(installed.version), (
        f"{requirement} is locked, and {installed.version} installed"
    )
    for file in installed.files or ():
        if ".." not in file.parts:  # no program in bin/
            (packages / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file.locate(), packages / file)


def test_the_packages_are_those_of_the_tests() -> None:
    """With the same hashes: those that were installed here are those of requirements.lock."""
    assert _locked("requirements.lock").items() <= _locked("requirements-test.lock").items()


def _run(*argv: str) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def test_no_test_package_is_installed(program: Path) -> None:
    """Otherwise the other tests of this file prove nothing."""
    python = program.with_name("python")
    done = subprocess.run([python, "-c", "import pytest"], capture_output=True, text=True, timeout=60, check=False)
    assert "No module named 'pytest'" in done.stderr


def test_every_imported_module_is_installed(program: Path) -> None:
    """Also modules that are imported inside functions."""
    _run(str(program.with_name("python")), "-c", IMPORT, *sorted(_imported()))


def _imported() -> set[str]:
    found = set()
    source = ROOT / "src" / "neutrino"
    for path in sorted(
        {*source.rglob("*.py")} - {source / "lab" / "keystone_server.py"}
    ):  # a program of Keystone's environment
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
    # neutron-lib, with oslo.service, is an extra: imported if a driver that is written for Neutron is configured.
    return {name for name in found if name.partition(".")[0] not in ("neutrino", "neutron_lib", "oslo_service")}


def test_every_command_has_help(program: Path) -> None:
    found = {" ".join(words) for words in _commands(str(program))}
    assert {"server", "up", "feed", "host", "agent", "db", "lab up", "lab vm", "lab demo"} <= found


def _commands(program: str, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All commands by their help, where argparse lists subcommands indented by four columns."""
    for name in re.findall(r"^    ([a-z][a-z-]*)(?=\s|$)", _run(program, *words, "--help"), re.MULTILINE):
        yield (*words, name)
        yield from _commands(program, (*words, name))


def test_up_to_the_first_port(program: Path, tmp_path: Path) -> None:
    state, output, number = tmp_path / "state", tmp_path / "output", free_port()
    with Machine() as machine, output.open("wb") as file:
        process = subprocess.Popen(
            machine.inside([str(program), "up", "--port", str(number), "--state", str(state)]),
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            wait_until(
                lambda: READY.search(output.read_text(errors="replace")) is not None,
                timeout=60,
                what="neutrino up",
                failed=lambda: None if process.poll() is None else f"ended:\n{output.read_text(errors='replace')}",
            )
            url = f"http://127.0.0.1:{number}/v2.0"
            network = machine.ask(f"{url}/networks", "POST", {"network": {"name": "blue"}})["network"]
            subnet = {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"}
            machine.ask(f"{url}/subnets", "POST", {"subnet": subnet})
            port = machine.ask(f"{url}/ports", "POST", {"port": {"network_id": network["id"]}})["port"]
            assert port["fixed_ips"]
            wait_until(  # the switch, the agent, its DHCP role
                lambda: "ACTIVE" in machine.run("curl", "-sS", f"{url}/ports?device_owner=network:dhcp"),
                timeout=60,
                what="the network's DHCP port",
                failed=lambda: None if process.poll() is None else "ended",
            )
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(timeout=30)
        assert process.returncode == 0, output.read_text(errors="replace")


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_server_on_a_database_of_its_own(program: Path, kind: str, request: pytest.FixtureRequest) -> None:
    database: Postgres | MariaDB = request.getfixturevalue(kind)
    url = database.create_database("runtime")
    if isinstance(database, MariaDB):
        url = database.url("runtime", prefers_tls=True)  # as an operator has it, who says nothing about TLS
    try:
        with Neutrino({"database": {"connection": url}}, program=program) as server:
            _make_port(server)
    finally:
        database.drop_database("runtime")


def test_server_with_keystone(program: Path, keystone: Keystone) -> None:
    with Neutrino(with_keystone(keystone), program=program) as server:
        caller = Caller(server.url)
        assert caller("GET", "/v2.0/networks").status_code == http.client.UNAUTHORIZED
        caller.close()


def test_feed_and_agent_wire_a_port(program: Path) -> None:
    with Neutrino(program=program) as server, OpenVSwitch() as switch:
        switch.vsctl("add-br", "br-phys", "--", "set", "bridge", "br-phys", "datapath_type=dummy")
        command = [program, "feed", "--config-file", server.config]
        server.spawn(command, ready=(server.directory / "feed.sock").exists)
        with Agent(server, switch, "h1"):
            caller = Caller(server.url)
            port_id = _make_port(server, host="h1")
            device = ("interface", "tap1", "type=dummy", f"external_ids:iface-id={port_id}")
            switch.vsctl("add-port", "br-int", "tap1", "--", "set", *device)
            wait_for_status(caller, port_id, "ACTIVE")
            caller.close()


def _make_port(server: Neutrino, host: str = "") -> str:
    caller = Caller(server.url)
    network = caller.create("network", name="blue")
    caller.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
    port = caller.create("port", network_id=network["id"], **{"binding:host_id": host})
    caller.close()
    assert port["fixed_ips"]
    port_id: str = port["id"]
    return port_id


def test_a_lab_with_one_vm(program: Path, tmp_path: Path) -> None:
    number = free_port()
    lab = (str(program), "lab", "--state", str(tmp_path / "lab"))
    _run(*lab, "up", "--hosts", "1", "--port", str(number))
    try:
        caller = Caller(f"http://127.0.0.1:{number}")
        network = caller.create("network", name="blue")
        subnet = caller.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
        caller.close()
        _run(*lab, "vm", "web", "--network", "blue")
        assert "10.0.0." in _run(*lab, "exec", "web", "--", "ip", "-4", "address", "show", "dev", "eth0")
        assert subnet["gateway_ip"] in _run(*lab, "exec", "web", "--", "ip", "route")
    finally:
        _run(*lab, "down")
