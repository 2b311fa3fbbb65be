"""`neutrino lab up --keystone`: quotas, RBAC and roles of real projects and users."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openstack
import pytest
import yaml

from neutrino.lab import build
from neutrino.lab.errors import LabError
from neutrino.lab.hosts import processes
from neutrino.lab.keystone import USERS, find_python
from tests.support.lab import address as address_of
from tests.support.lab import pings, temporary_lab
from tests.support.lab_control import Lab

Forbidden, Conflict = openstack.exceptions.ForbiddenException, openstack.exceptions.ConflictException


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary_lab(hosts=1, keystone=sys.executable) as made:
        yield made


def cloud(lab: Lab, name: str) -> Any:
    """The API as a user of clouds.yaml sees it."""
    loaded = openstack.config.OpenStackConfig(config_files=[str(lab.paths.clouds)])
    return openstack.connection.Connection(config=loaded.get_one(name)).network


def neutrino(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "neutrino.cli.main", "lab", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_members_see_their_project(lab: Lab) -> None:
    known = yaml.safe_load(lab.paths.clouds.read_text())["clouds"]
    assert set(known) == {"neutrino", *(user.name for user in USERS)}
    alpha, beta, reader = (cloud(lab, name) for name in ("alpha-member", "beta-member", "alpha-reader"))
    network = alpha.create_network(name="own")
    assert reader.find_network("own").id == network.id
    assert beta.find_network("own") is None
    with pytest.raises(Forbidden):
        reader.create_network(name="no")
    with pytest.raises(Forbidden):
        alpha.create_network(name="no", provider_network_type="vlan")
    assert list(alpha.agents()) == []
    assert [agent.host for agent in cloud(lab, "admin").agents(agent_type="Open vSwitch agent")] == ["h1"]
    alpha.delete_network(network)


def test_quotas(lab: Lab) -> None:
    admin, alpha, beta = (cloud(lab, name) for name in ("admin", "alpha-member", "beta-member"))
    first = alpha.create_network(name="one")
    admin.update_quota(first.project_id, networks=1)
    with pytest.raises(Conflict, match="uota"):
        alpha.create_network(name="two")
    beta.delete_network(beta.create_network(name="two"))
    admin.delete_quota(first.project_id)
    alpha.delete_network(first)


def test_a_network_that_rbac_shares(lab: Lab) -> None:
    """Instances of two projects on one network, each with the default security group of its own project."""
    alpha, beta = cloud(lab, "alpha-member"), cloud(lab, "beta-member")
    network = alpha.create_network(name="blue")
    alpha.create_subnet(network_id=network.id, ip_version=4, cidr="10.0.0.0/24")
    group = next(beta.security_groups())
    assert beta.find_network("blue") is None
    alpha.create_rbac_policy(
        object_type="network", object_id=network.id, action="access_as_shared", target_project_id=group.project_id
    )
    assert beta.find_network("blue").id == network.id
    lab.instances.create("a", network="blue")
    lab.instances.create("b", network="blue", project="beta", security_groups=["default"])
    assert lab.api.show("port", lab.vms.get("b").port_id)["project_id"] == group.project_id
    assert not pings(lab, "a", address_of(lab, "b"), seconds=2)
    beta.create_security_group_rule(security_group_id=group.id, direction="ingress", protocol="icmp")
    assert pings(lab, "a", address_of(lab, "b"))
    with pytest.raises(LabError, match="there is no project nobody: Keystone has admin, alpha, beta, service"):
        lab.instances.create("c", network="blue", project="nobody")
    for name in ("a", "b"):
        lab.instances.delete(name)


def test_only_the_owner_reads_the_passwords(lab: Lab) -> None:
    for path in (
        lab.paths.clouds,
        lab.paths.passwords,
        lab.paths.server_keystone,
        lab.paths.keystone / "keystone.conf",
    ):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    secret = json.loads(lab.paths.passwords.read_text())["admin"]
    pid = lab.processes.pid("keystone")
    assert secret not in Path(f"/proc/{pid}/cmdline").read_text()


def test_status_names_keystone(lab: Lab) -> None:
    state = ("--state", str(lab.paths.state))
    answer = json.loads(neutrino(lab, "status", *state, "--json").stdout)
    assert answer["healthy"]
    assert answer["keystone"] == {"url": lab.settings.keystone_url, "process": lab.processes.pid("keystone")}
    shown = neutrino(lab, "status", *state)
    assert f"Keystone {lab.settings.keystone_url}, process {lab.processes.pid('keystone')}" in shown.stdout
    assert "with Keystone: OS_CLOUD is one of admin, alpha-manager" in shown.stdout


def test_down_ends_keystone(lab: Lab) -> None:
    pid = lab.processes.pid("keystone")
    assert pid is not None
    build.down(lab.paths.state)
    assert not processes.is_alive(pid)
    assert not lab.paths.state.exists()


def test_where_keystone_is_not_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match=r"^--keystone /bin/true/x: that Python does not have the package keystone$"):
        find_python("/bin/true/x")
    assert find_python("", tmp_path) == sys.executable
    monkeypatch.setattr(sys, "executable", "/usr/bin/false")
    with pytest.raises(LabError, match="pip install keystone elsewhere"):
        find_python("", tmp_path)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/setup").touch()
    with pytest.raises(LabError, match="run scripts/setup keystone, or give the Python that has it"):
        find_python("", tmp_path)
    made = tmp_path / "build/keystone/bin/python"
    made.parent.mkdir(parents=True)
    made.symlink_to("/usr/bin/true")
    assert find_python("", tmp_path) == os.fspath(made)
