"""A cloud with Keystone for other test suites, until Ctrl-C.

    python -m tests.conformance.suites DIRECTORY

Its hosts only seem to be there: their agents have reported, and do nothing but to report as applied what they receive
(`reporting_hosts.py`). DIRECTORY gets `tempest.conf` and `clouds.yaml`, and it
prints how each suite is run, from a virtual environment of its own: Tempest with Neutron's plug-in, openstacksdk's
functional tests, and those of the command.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path
from typing import Any

import requests
import yaml

from neutrino.lab.keystone import REGION
from neutrino.model import agents
from neutrino.model.agents import AgentState
from neutrino.model.objects import Object
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from tests.conformance.reporting_hosts import reporting
from tests.conformance.serve import until_interrupted
from tests.support.keystone import Keystone
from tests.support.neutrino import Neutrino, with_keystone

HOSTS = ("compute1", "compute2")
FAR = 4102444800.0  # the year 2100: agents report only once
USERS = {"devstack": "demo", "devstack-alt": "alt_demo"}
QUOTAS = {"network": 500, "subnet": 500, "port": 2000, "security_group": 100, "security_group_rule": 1000}
QUOTAS |= {"router": 100, "floatingip": 200, "rbac_policy": 100}
QUOTAS |= {"firewall_group": 100, "firewall_policy": 100, "firewall_rule": 500}
TEMPEST = """\
[DEFAULT]
log_file = {directory}/tempest.log
[oslo_concurrency]
lock_path = {directory}/locks
[auth]
admin_username = admin
admin_password = {keystone.admin_password}
admin_project_name = admin
admin_domain_name = Default
use_dynamic_credentials = true
create_isolated_networks = false
tempest_roles = member
[identity]
uri_v3 = {keystone.url}
auth_version = v3
region = {region}
[service_available]
neutron = true
nova = false
glance = false
cinder = false
swift = false
[network]
public_network_id = {public}
floating_network_name = public
[network-feature-enabled]
api_extensions = {extensions}
ipv6 = true
ipv6_subnet_attributes = true
port_security = true
[neutron_plugin_options]
provider_vlans = physnet1
available_type_drivers = flat,vlan,vxlan,gre,geneve
l3_agent_mode = legacy
q_agent = ovs
firewall_driver = openvswitch
agent_availability_zone = nova
create_shared_resources = true
"""
COMMANDS = """\
In an environment with tempest, neutron-tempest-plugin, python-openstackclient, oslotest and requests-mock:

  export OS_CLIENT_CONFIG_FILE={directory}/clouds.yaml TEMPEST_CONFIG_DIR={directory} TEMPEST_CONFIG=tempest.conf
  SITE=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  TESTS="--test-path $SITE/tempest/test_discover --top-dir $SITE"
  cd $(mktemp -d) && stestr $TESTS init
  stestr $TESTS run --serial 'neutron_tempest_plugin.([a-z_]+[.])?api|tempest.api.network'
  OS_TEST_TIMEOUT=300 python -m unittest discover -s $SITE/openstack/tests/functional/network -t $SITE
  cd {directory} && export OS_CLOUD=devstack-admin
  python -m unittest discover -s $SITE/openstackclient/tests/functional/network -t $SITE
"""


class Cloud:
    def __init__(self, keystone: Keystone, server: Neutrino) -> None:
        self._keystone = keystone
        self._server = server
        self._headers = {"X-Auth-Token": keystone.token("admin", keystone.admin_password, "admin")}

    def create(self, kind: str, **values: Any) -> Object:
        answer = requests.post(f"{self._v2}/{kind}s", json={kind: values}, headers=self._headers, timeout=30)
        answer.raise_for_status()
        made: Object = answer.json()[kind]
        return made

    def extensions(self) -> list[str]:
        answer = requests.get(f"{self._v2}/extensions", headers=self._headers, timeout=30)
        return [each["alias"] for each in answer.json()["extensions"]]

    @property
    def _v2(self) -> str:
        return f"{self._server.url}/v2.0"


def report_agents(server: Neutrino) -> None:
    """Report agents for each host: Open vSwitch, DHCP and L3."""
    database = Database(server.database)
    try:
        registry = Registry(database, clock=lambda: FAR)
        for number, host in enumerate(HOSTS, 1):
            l2 = {
                agents.TUNNEL_TYPES: ["vxlan"],
                agents.TUNNELING_IP: f"192.0.2.{number}",
                agents.BRIDGE_MAPPINGS: {"physnet1": "br-physnet1"},
            }
            registry.report_all(
                [
                    AgentState(agents.OVS, "neutrino-agent", host, "N/A", configurations=l2),
                    AgentState(
                        agents.DHCP,
                        "neutrino-agent",
                        host,
                        "dhcp_agent",
                        availability_zone="nova",
                        configurations={agents.DHCP_PORT_BY_SERVER: True},
                    ),
                    AgentState(
                        agents.L3,
                        "neutrino-agent",
                        host,
                        "l3_agent",
                        availability_zone="nova",
                        configurations={"agent_mode": "legacy"},
                    ),
                ]
            )
    finally:
        database.close()


def clouds(keystone: Keystone) -> Object:
    """Two users with a project each, and the operator, with the names that the suites expect."""
    common = {"region_name": REGION, "identity_api_version": "3"}
    found = {}
    for name, user in USERS.items():
        password = secrets.token_hex(16)
        keystone.create_user(user, password, keystone.create_project(user), ["member", "reader"])
        found[name] = {**common, "auth": _auth(keystone, user, password, project_name=user)}
    operator = ("admin", keystone.admin_password)
    found["devstack-admin"] = {**common, "auth": _auth(keystone, *operator, project_name="admin")}
    found["devstack-system-admin"] = {**common, "auth": _auth(keystone, *operator, system_scope="all")}
    return {"clouds": found}


def _auth(keystone: Keystone, user: str, password: str, **scope: str) -> Object:
    domains = {"user_domain_id": "default"} | ({"project_domain_id": "default"} if "project_name" in scope else {})
    return {"auth_url": keystone.url, "username": user, "password": password, **domains, **scope}


def settings(keystone: Keystone) -> Object:
    with_users = with_keystone(keystone)
    return {
        **with_users,
        "DEFAULT": {**with_users["DEFAULT"], "dns_domain": "example.org.", "vlan_transparent": True, "vlan_qinq": True},
        "ml2": {"project_network_types": "vxlan", "mechanism_drivers": "openvswitch,l2population"},
        "ml2_type_vlan": {"network_vlan_ranges": "physnet1:100:199"},
        "ml2_type_flat": {"flat_networks": "*"},
        "ml2_type_vxlan": {"vni_ranges": "1:2000"},
        "quotas": {f"quota_{name}": limit for name, limit in QUOTAS.items()},
        "feed": {"run": True},
    }


def prepare(directory: Path, keystone: Keystone, server: Neutrino) -> None:
    keystone.register_network_endpoint(server.url)
    report_agents(server)
    cloud = Cloud(keystone, server)
    outside = {"router:external": True, "provider:network_type": "flat", "provider:physical_network": "physnet1"}
    public = cloud.create("network", name="public", is_default=True, **outside)
    cloud.create("subnet", network_id=public["id"], cidr="203.0.113.0/24", ip_version=4, enable_dhcp=False)
    for prefix, length in (("10.200.0.0/16", 24), ("fd00:200::/48", 64)):
        shared = {"shared": True, "is_default": True, "default_prefixlen": length}
        cloud.create("subnetpool", name=f"default {prefix}", prefixes=[prefix], **shared)
    text = TEMPEST.format(
        directory=directory,
        keystone=keystone,
        region=REGION,
        public=public["id"],
        extensions=",".join(cloud.extensions()),
    )
    for name, content in (("tempest.conf", text), ("clouds.yaml", yaml.safe_dump(clouds(keystone)))):
        path = directory / name
        path.touch(mode=0o600)
        path.write_text(content)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where the suites' configuration is written")
    directory = parser.parse_args(arguments).directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    with Keystone() as keystone, Neutrino(settings(keystone), workers=2) as server:
        prepare(directory, keystone, server)
        with reporting(server, HOSTS):
            until_interrupted(f"{server.url} serves until Ctrl-C.\n{COMMANDS.format(directory=directory)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
