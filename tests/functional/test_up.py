"""`neutrino up`, typed and ended as a person does, and what it prints, typed into a shell."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.bench.memory import alive, tree
from tests.support.neutrino import PROGRAM, Caller
from tests.support.ports import free_port, listening
from tests.support.process import wait_until

READY = "Ctrl-C ends it"


@dataclass
class Up:
    process: subprocess.Popen[bytes]
    output: Path
    url: str

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def ctrl_c(self) -> int:
        """The terminal sends the signal to every process of the command; the exit status."""
        family = tree(self.process.pid)
        os.killpg(self.process.pid, signal.SIGINT)
        status = self.process.wait(timeout=20)
        wait_until(lambda: not any(map(alive, family)), timeout=5, what="a process of neutrino up", failed=lambda: None)
        return status


@contextmanager
def up(directory: Path, *arguments: str, path: str | None = None, inside: Sequence[str] = ()) -> Iterator[Up]:
    """`neutrino up` in a directory, once it has said what to type next."""
    if inside:
        arguments = (*arguments, "--state", str(directory / "state"))
    else:
        arguments = (*arguments, "--no-dataplane")  # the devices of this machine are not ours to make
    port = free_port()
    output = directory / "output"
    environment = {"PATH": path or f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": str(directory)}
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*inside, PROGRAM, "up", "--port", str(port), *arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    running = Up(process, output, f"http://127.0.0.1:{port}")
    try:
        wait_until(
            lambda: READY in running.text,
            timeout=60,
            what="neutrino up",
            failed=lambda: None if process.poll() is None else f"ended with {process.returncode}:\n{running.text}",
        )
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=20)


def commands(text: str) -> list[str]:
    return [line.strip() for line in re.findall(r"^  \S.*$", text, re.MULTILINE)]


def test_what_it_prints_works_as_printed_and_stays_for_the_next_start(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        assert "no authentication, this machine only" in running.text
        assert Caller(running.url)("GET", "/v2.0/networks").status_code == 200  # it said so when it was true
        typed = commands(running.text)
        assert len(typed) == 5
        environment = {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        shell = subprocess.run(
            ["bash", "-euc", "\n".join([*typed, "openstack port list -f json >ports.json"])],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert shell.returncode == 0, shell.stdout + shell.stderr
        assert [port["Name"] for port in json.loads((tmp_path / "ports.json").read_text())] == ["vm1"]
        started = time.monotonic()
        assert running.ctrl_c() == 0
        assert time.monotonic() - started < 20
        assert not listening(int(running.url.rpartition(":")[2]))
        assert "Traceback" not in running.text

    with up(tmp_path) as running:
        clouds = tmp_path / "state" / "clouds.yaml"
        region = OpenStackConfig(config_files=[str(clouds)]).get_one("neutrino")
        conn = Connection(config=region)
        assert [port.name for port in conn.network.ports()] == ["vm1"]
        assert conn.network.find_network("blue", ignore_missing=False).subnet_ids
        assert running.ctrl_c() == 0


def test_ctrl_c_ends_it_at_once_also_before_all_workers_serve(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("[DEFAULT]\napi_workers = 4\n")
    for _ in range(3):
        with up(tmp_path, "--config-file", "more.conf") as running:
            started = time.monotonic()
            assert running.ctrl_c() == 0
            took = time.monotonic() - started
            # Granian may say that a worker refused which has just ended; one that did is killed after ten seconds.
            assert took < 10 or "refused to gracefully stop" not in running.text
            assert took < 20, running.text


def test_the_files_go_where_state_says(tmp_path: Path) -> None:
    state = tmp_path / "of mine" / "here"
    with up(tmp_path, "--state", str(state)) as running:
        assert "OS_CLIENT_CONFIG_FILE='" in running.text
        assert {"clouds.yaml", "neutrino.conf", "neutrino.sqlite"} <= {path.name for path in state.iterdir()}
        assert not (tmp_path / "state").exists()


def test_a_configuration_file_goes_over_the_defaults(tmp_path: Path) -> None:
    port = free_port()
    more = tmp_path / "more.conf"
    more.write_text(f"[DEFAULT]\nbind_port = {port}\napi_workers = 1\n[quotas]\nquota_network = 1\n")
    with up(tmp_path, "--config-file", str(more)) as running:
        url = f"http://127.0.0.1:{port}"
        assert url in running.text
        assert running.url not in running.text
        assert url in (tmp_path / "state" / "clouds.yaml").read_text()
        caller = Caller(url)
        caller.create("network", name="one")
        assert caller("POST", "/v2.0/networks", {"network": {}}).status_code == 409


def test_where_there_is_no_client_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from neutrino.cli import up as module

    monkeypatch.setenv("PATH", str(tmp_path))
    assert module.client() == (str(Path(sys.executable).with_name("openstack")), "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert "pip install python-openstackclient" in module.client()[1]


def refused(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [PROGRAM, *arguments], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_a_port_in_use_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        status, message = refused(tmp_path, "up", "--port", str(port))
    assert (status, message) == (1, f"neutrino: cannot listen on 127.0.0.1 port {port}: Address already in use\n")


def test_a_place_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status, message = refused(tmp_path, "up", "--port", str(free_port()), "--state", "file")
    assert status == 1
    assert message == f"neutrino: cannot keep files in {tmp_path}/file: File exists\n"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_without_authentication_it_refuses_to_listen_beyond_loopback(tmp_path: Path, host: str) -> None:
    config = tmp_path / "open.conf"
    config.write_text(f"[DEFAULT]\nauth_strategy = noauth\nbind_host = {host}\nbind_port = {free_port()}\n")
    status, message = refused(tmp_path, "server", "--config-file", str(config))
    assert status == 2
    assert message.count("\n") == 1
    for option in ("auth_strategy=noauth", f"bind_host={host}", "allow_noauth_beyond_loopback=true"):
        assert option in message


def test_beyond_loopback_if_it_is_meant(tmp_path: Path) -> None:
    from neutrino.server.config import RefusedToStart, check_listening
    from neutrino.server.main import configuration

    config = tmp_path / "open.conf"
    text = "[DEFAULT]\nauth_strategy = noauth\nbind_host = 0.0.0.0\n"
    config.write_text(text)
    with pytest.raises(RefusedToStart):
        check_listening(configuration([str(config)]))
    config.write_text(f"{text}allow_noauth_beyond_loopback = true\n")
    check_listening(configuration([str(config)]))


@pytest.fixture
def machine() -> Iterator[list[str]]:
    """A network of its own, as of another machine: how to run a command in it."""
    script = (
        "mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && ip link set lo up && echo ready && exec sleep 600"
    )
    holder = subprocess.Popen(
        ["unshare", "--net", "--mount", "bash", "-euc", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        yield ["nsenter", "--target", str(holder.pid), "--net", "--mount", "--"]
    finally:
        holder.kill()
        holder.wait()


def ask(machine: Sequence[str], url: str, method: str = "GET", body: object = None) -> dict[str, Any]:
    data = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body is not None else []
    command = [*machine, "curl", "-sS", "-X", method, *data, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def output(machine: Sequence[str], *command: str) -> str:
    return subprocess.run([*machine, *command], capture_output=True, text=True, timeout=60, check=False).stdout


def test_it_wires_networks_on_this_machine_and_finds_them_again(tmp_path: Path, machine: list[str]) -> None:
    def alive_agents(url: str) -> set[str]:
        agents = ask(machine, f"{url}/v2.0/agents")["agents"]
        return {agent["agent_type"] for agent in agents if agent["alive"]}

    with up(tmp_path, inside=machine) as running:
        url = f"{running.url}/v2.0"
        wanted = {"Open vSwitch agent", "DHCP agent", "L3 agent", "Metadata agent"}
        wait_until(lambda: alive_agents(running.url) >= wanted, timeout=30, what="the agents", failed=lambda: None)
        (public,) = ask(machine, f"{url}/networks?router:external=true")["networks"]
        network = ask(machine, f"{url}/networks", "POST", {"network": {"name": "blue"}})["network"]
        subnet = {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"}
        subnet = ask(machine, f"{url}/subnets", "POST", {"subnet": subnet})["subnet"]
        router = {"name": "out", "external_gateway_info": {"network_id": public["id"]}}
        router = ask(machine, f"{url}/routers", "POST", {"router": router})["router"]
        address = router["external_gateway_info"]["external_fixed_ips"][0]["ip_address"]
        ask(machine, f"{url}/routers/{router['id']}/add_router_interface", "PUT", {"subnet_id": subnet["id"]})

        def answers() -> bool:
            return ", 0% packet loss" in output(machine, "ping", "-c", "1", "-W", "1", address)

        wait_until(answers, timeout=30, what=f"the router at {address}", failed=lambda: None)
        spaces = output(machine, "ip", "netns")
        assert f"qrouter-{router['id']}" in spaces
        assert f"qdhcp-{network['id']}" in spaces
        assert running.ctrl_c() == 0
        assert output(machine, "ip", "netns", "pids", f"qdhcp-{network['id']}").strip() == ""
        assert not answers()

    with up(tmp_path, inside=machine):
        wait_until(answers, timeout=30, what="the router again", failed=lambda: None)
