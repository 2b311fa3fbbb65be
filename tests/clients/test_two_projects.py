"""Two projects with passwords of their own, found through the catalog: neither client sees the other's things."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openstack import exceptions

from tests.clients.conftest import Cloud
from tests.clients.shell import Shell
from tests.support.keystone import Keystone
from tests.support.neutrino import Neutrino, with_keystone

pytestmark = pytest.mark.keystone
Pair = tuple[Cloud, Cloud]


@pytest.fixture(scope="module")
def pair(keystone: Keystone) -> Iterator[Pair]:
    projects = [keystone.create_project(f"{user}s-project") for user in ("eve", "dan")]
    for user, project in zip(("eve", "dan"), projects, strict=True):
        keystone.create_user(user, "secret", project, ["member", "reader"])
    with Neutrino(with_keystone(keystone)) as server, keystone.network_endpoint(server.url):
        eve, dan = (
            Cloud(
                server,
                {
                    "OS_AUTH_URL": keystone.url,
                    "OS_REGION_NAME": keystone.region,
                    "OS_USERNAME": user,
                    "OS_PASSWORD": "secret",
                    "OS_PROJECT_NAME": f"{user}s-project",
                    "OS_USER_DOMAIN_ID": "default",
                    "OS_PROJECT_DOMAIN_ID": "default",
                    "OS_IDENTITY_API_VERSION": "3",
                },
                project,
                next(other for other in projects if other != project),
                keystone=True,
            )
            for user, project in zip(("eve", "dan"), projects, strict=True)
        )
        yield eve, dan


def test_with_the_sdk(pair: Pair) -> None:
    with pair[0].connect() as eve, pair[1].connect() as dan:
        network = eve.network.create_network(name="private")
        eve.network.create_subnet(network_id=network.id, ip_version=4, cidr="10.0.0.0/24")
        port = eve.network.create_port(network_id=network.id)
        group = eve.network.create_security_group(name="private")
        assert network.project_id == pair[0].project
        assert network.provider_network_type is None  # that is the operator's business
        assert list(dan.network.networks()) == []
        assert list(dan.network.ports()) == []
        assert [one.name for one in dan.network.security_groups()] == ["default"]
        for find, key in (
            (dan.network.get_network, network.id),
            (dan.network.get_port, port.id),
            (dan.network.get_security_group, group.id),
        ):
            with pytest.raises(exceptions.NotFoundException):
                find(key)
        with pytest.raises(exceptions.NotFoundException):
            dan.network.create_port(network_id=network.id)
        policy = eve.network.create_rbac_policy(
            object_type="network", object_id=network.id, action="access_as_shared", target_project_id=pair[1].project
        )
        assert [one.name for one in dan.network.networks()] == ["private"]
        assert dan.network.create_port(network_id=network.id).fixed_ips
        with pytest.raises(exceptions.ForbiddenException):
            dan.network.delete_network(network.id)
        for shared in dan.network.ports():
            dan.network.delete_port(shared)
        eve.network.delete_rbac_policy(policy, ignore_missing=False)
        assert list(dan.network.networks()) == []


def test_with_the_command(pair: Pair, tmp_path: Path) -> None:
    with Shell(pair[0].environment(tmp_path)) as eve, Shell(pair[1].environment(tmp_path)) as dan:
        network = eve.json("network create mine")
        eve("security group create mine")
        assert dan.json("network list --name mine") == []
        assert "No Network found" in dan.refused(f"network show {network['id']}")
        assert dan.refused(f"network delete {network['id']}")
        assert dan.refused("security group show mine")
        assert "403" in dan.refused("network create --external outside")
        assert dan.json("network agent list") == []
        eve("network delete mine")
        eve("security group delete mine")
