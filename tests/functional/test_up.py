"""`neutrino up` without a dataplane: the printed commands work, and its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.support.keystone import Keystone
from tests.support.launcher import PROGRAM
from tests.support.neutrino import Caller, configuration, with_keystone
from tests.support.ports import free_port, listening
from tests.support.up import commands, up


def test_the_printed_commands_work_and_objects_survive_a_restart(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        assert "no authentication, this machine only" in running.text
        assert Caller(running.url)("GET", "/v2.0/networks").status_code == 200  # it was ready when it printed this
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
            timeout=300,
            check=False,
        )
        assert shell.returncode == 0, shell.stdout + shell.stderr
        assert [port["Name"] for port in json.loads((tmp_path / "ports.json").read_text())] == ["vm1"]
        started = time.monotonic()
        assert running.ctrl_c() == 0
        assert time.monotonic() - started < 40
        assert not listening(int(running.url.rpartition(":")[2]))
        assert "Traceback" not in running.text
        assert "INFO" not in running.text  # logs go to files
        assert len(running.text.splitlines()) <= 20

    with up(tmp_path) as running:
        clouds = tmp_path / "state" / "clouds.yaml"
        region = OpenStackConfig(config_files=[str(clouds)]).get_one("neutrino")
        conn = Connection(config=region)
        assert [port.name for port in conn.network.ports()] == ["vm1"]
        assert conn.network.find_network("blue", ignore_missing=False).subnet_ids
        assert running.ctrl_c() == 0


def test_ctrl_c_ends_it_also_before_all_workers_serve(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("[DEFAULT]\napi_workers = 4\n")
    for _ in range(3):
        with up(tmp_path, "--config-file", "more.conf") as running:
            started = time.monotonic()
            assert running.ctrl_c() == 0
            took = time.monotonic() - started
            # Granian may log a refusal for a worker that has just ended; a real one is killed after ten seconds.
            assert took < 10 or "refused to gracefully stop" not in running.text
            assert took < 40, running.text


def test_the_state_option_sets_the_directory(tmp_path: Path) -> None:
    state = tmp_path / "of mine" / "here"
    with up(tmp_path, "--state", str(state)) as running:
        assert "OS_CLIENT_CONFIG_FILE='" in running.text
        assert {"clouds.yaml", "neutrino.conf", "neutrino.sqlite"} <= {path.name for path in state.iterdir()}
        assert not (tmp_path / "state").exists()


def test_a_configuration_file_overrides_the_defaults(tmp_path: Path) -> None:
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


def test_without_a_client_it_prints_how_to_install_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from neutrino.cli.up import next_steps as module

    monkeypatch.setenv("PATH", str(tmp_path))
    assert module.client() == (str(Path(sys.executable).with_name("openstack")), "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert "pip install python-openstackclient" in module.client()[1]


def test_listening_beyond_loopback_needs_an_option(tmp_path: Path) -> None:
    from neutrino.errors import RefusedToStart
    from neutrino.server.config import check_listening, configuration

    config = tmp_path / "open.conf"
    text = "[DEFAULT]\nauth_strategy = noauth\nbind_host = 0.0.0.0\n"
    config.write_text(text)
    with pytest.raises(RefusedToStart):
        check_listening(configuration([str(config)]))
    config.write_text(f"{text}allow_noauth_beyond_loopback = true\n")
    check_listening(configuration([str(config)]))


@pytest.mark.keystone
def test_with_keystone_it_requires_authentication(tmp_path: Path, keystone: Keystone) -> None:
    more = tmp_path / "keystone.conf"
    more.write_text(configuration(with_keystone(keystone)))
    with up(tmp_path, "--config-file", str(more)) as running:
        assert "no authentication" not in running.text
        assert "Keystone" in running.text
        assert "could not" not in running.text
        assert not (tmp_path / "state" / "clouds.yaml").exists()
        assert Caller(running.url)("GET", "/v2.0/networks").status_code == 401


def test_a_second_run_with_the_same_directory_is_refused(tmp_path: Path) -> None:
    with up(tmp_path):
        command = [PROGRAM, "up", "--no-dataplane", "--port", str(free_port())]
        second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert second.returncode == 1
    assert second.stderr == (
        f"neutrino: neutrino up is already running with state directory {tmp_path}/state: end it, or use --state\n"
    )


def test_the_state_directory_is_private(tmp_path: Path) -> None:
    with up(tmp_path):
        assert (tmp_path / "state").stat().st_mode & 0o066 == 0
