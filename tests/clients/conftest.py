"""One server without authentication and one behind Keystone: what clients do has to work on both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import openstack
import pytest
from openstack.connection import Connection

from neutrino.model import agents
from neutrino.model.agents import AgentState
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from tests.clients.shell import Shell, environment
from tests.support.keystone import Keystone
from tests.support.neutrino import Neutrino, with_keystone

HOSTS = ("compute1", "compute2")
EVERY_ROLE = ("admin", "manager", "member", "reader", "service")
NO_LIMITS = {
    f"quota_{name}": -1
    for name in ("network", "subnet", "port", "security_group", "security_group_rule", "rbac_policy")
}
TAGS = {"vlan_transparent": True, "vlan_qinq": True}  # networks that carry VLAN tags of instances
PLACEMENT = {"auth_type": "none", "endpoint": "http://127.0.0.1:1"}  # no agent reports anything for it


@dataclass(frozen=True)
class Cloud:
    """A server, how a client reaches it as an operator who may do everything, and two projects."""

    server: Neutrino
    variables: dict[str, str]
    project: str  # the operator's
    other: str
    keystone: bool

    def environment(self, home: Path) -> dict[str, str]:
        return environment(home, **self.variables)

    def connect(self) -> Connection:
        """What openstacksdk makes of the same variables."""
        given = {name.removeprefix("OS_").lower(): value for name, value in self.variables.items()}
        return openstack.connect(load_envvars=False, load_yaml_config=False, **given)


@pytest.fixture(scope="session", params=["noauth", pytest.param("keystone", marks=pytest.mark.keystone)])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    """One or the other; each is made once, however often tests change from one to the other."""
    made: Cloud = request.getfixturevalue(f"{request.param}_cloud")
    return made


@pytest.fixture(scope="session")
def noauth_cloud() -> Iterator[Cloud]:
    with Neutrino({"DEFAULT": TAGS, "quotas": NO_LIMITS, "placement": PLACEMENT}) as server:
        report_agents(server)
        variables = {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": server.url}
        yield Cloud(server, variables, "admin", "other", keystone=False)


@pytest.fixture(scope="session")
def keystone_cloud(keystone: Keystone) -> Iterator[Cloud]:
    # Each worker has a cloud of its own, in one Keystone.
    operators, operator = f"operators-{keystone.region}", f"operator-{keystone.region}"
    project, other = keystone.create_project(operators), keystone.create_project(f"others-{keystone.region}")
    keystone.create_user(operator, "secret", project, EVERY_ROLE)
    settings = with_keystone(keystone)
    more = {"DEFAULT": {**settings["DEFAULT"], **TAGS}, "quotas": NO_LIMITS, "placement": PLACEMENT}
    with Neutrino({**settings, **more}) as server:
        report_agents(server)
        keystone.register_network_endpoint(server.url)
        variables = {
            "OS_AUTH_URL": keystone.url,
            "OS_REGION_NAME": keystone.region,
            "OS_USERNAME": operator,
            "OS_PASSWORD": "secret",
            "OS_PROJECT_NAME": operators,
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
            "OS_IDENTITY_API_VERSION": "3",
        }
        yield Cloud(server, variables, project, other, keystone=True)


@pytest.fixture(scope="session")
def shell(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with Shell(cloud.environment(tmp_path_factory.mktemp("home"))) as running:
        yield running


@pytest.fixture(scope="session")
def conn(cloud: Cloud) -> Iterator[Connection]:
    with cloud.connect() as connection:
        yield connection


def report_agents(server: Neutrino) -> None:
    """Two hosts, each with a switch and a DHCP server, as their agents would report them."""
    database = Database(server.database)
    try:
        # The agents do not run: one report has to last for the whole session.
        registry = Registry(database, clock=lambda: FAR)
        for host in HOSTS:
            l2 = {
                "tunnel_types": ["vxlan"],
                "tunneling_ip": f"192.0.2.{HOSTS.index(host) + 1}",
                "bridge_mappings": {"physnet1": "br-physnet1"},
            }
            registry.report_all(
                [
                    AgentState(agents.OVS, "neutrino-agent", host, "N/A", configurations=l2),
                    AgentState(agents.DHCP, "neutrino-agent", host, "dhcp_agent", availability_zone="nova"),
                ]
            )
    finally:
        database.close()


FAR = 4102444800.0  # the year 2100
