"""Records what an upgrade to the next release has to read: databases, the objects in them, and a conversation of the feed.

  python -m tests.support.record_release tests/data/schema-NUMBER

Run once per release that changes the schema or the feed, with the code of the release before, and kept in tests/data: a
user's clone may be without history. `tests/api/test_upgrade.py` reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from websockets.asyncio.client import unix_connect
from websockets.asyncio.server import ServerConnection, unix_serve
from websockets.exceptions import ConnectionClosed

from neutrino import __version__
from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.feed.messages import HOST_HEADER
from neutrino.model.agents import DHCP, L3, METADATA, OVS, AgentState
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach, l3_agent
from tests.api.qos import RULES, policy, rule
from tests.support.dumps import dump
from tests.support.feed import serving, until
from tests.support.mariadb import MariaDB
from tests.support.postgres import Postgres

PROJECT = "0123456789abcdef0123456789abcdef"
HOST = "h1"
ROLES = ("l2", "dhcp", "l3", "metadata")
# Every collection that can be listed, by its path below /v2.0; the rules of a QoS policy are in the policy.
COLLECTIONS = (
    *("networks", "subnets", "ports", "subnetpools", "address-scopes", "segments", "routers", "floatingips"),
    *("security-groups", "security-group-rules", "address-groups", "rbac-policies", "agents", "quotas"),
    *("availability_zones", "flavors", "service_profiles", "qos/policies"),
    *("fwaas/firewall_groups", "fwaas/firewall_policies", "fwaas/firewall_rules"),
)


def collection_key(path: str) -> str:
    return path.rpartition("/")[2].replace("-", "_")


def read_all(admin: Api) -> dict[str, list[dict[str, Any]]]:
    """All objects of all collections, by path."""
    out = {}
    for path in COLLECTIONS:
        answer = admin.get(f"/{path}")
        if answer.status == 200:
            out[path] = answer.body[collection_key(path)]
    for each in out["floatingips"]:
        path = f"floatingips/{each['id']}/port_forwardings"
        out[path] = admin.get(f"/{path}").expect(200).body["port_forwardings"]
    return out


def create_objects(server: Server, admin: Api) -> None:
    """Objects of every kind, most with every attribute."""
    member = admin.as_member(PROJECT)
    switch(server, HOST, tunneling_ip="192.0.2.1")
    switch(server, "h2", tunneling_ip="192.0.2.2")
    for host in (HOST, "h2"):
        l3_agent(server, host, agent_mode="dvr_snat", external_network_bridge="")

    out = admin.network(
        name="public", router__external=True, provider__network_type="flat", provider__physical_network="physnet1"
    )
    admin.subnet(out, "172.24.4.0/24", enable_dhcp=False, name="public-v4")
    scope = admin.make("address_scope", name="scope", ip_version=4, shared=True)
    pool = admin.make(
        "subnetpool",
        name="pool",
        prefixes=["10.64.0.0/16"],
        address_scope_id=scope["id"],
        shared=True,
        default_prefixlen=24,
    )
    gold = policy(admin, project_id=PROJECT, description="all types of rules")
    for type_ in RULES:
        rule(admin, gold["id"], type_)

    blue = member.network(name="blue", dns_domain="blue.example.org.", qos_policy_id=gold["id"])
    v4 = member.subnet(
        blue,
        "10.0.0.0/24",
        name="blue-v4",
        dns_nameservers=["192.0.2.53"],
        host_routes=[{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}],
    )
    member.subnet(blue, "2001:db8:1::/64", name="blue-v6", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    green = member.network(name="green")
    green_v4 = member.subnet(green, None, name="green-v4", subnetpool_id=pool["id"])
    admin.network(
        name="vlan",
        provider__network_type="vlan",
        provider__physical_network="physnet1",
        provider__segmentation_id=101,
        shared=True,
        mtu=1400,
    )

    addresses = member.make("address_group", name="office", addresses=["198.51.100.0/24", "2001:db8:ffff::/48"])
    web = member.make("security_group", name="web", description="web servers")
    for values in (
        {"protocol": "tcp", "port_range_min": 80, "port_range_max": 443, "remote_ip_prefix": "0.0.0.0/0"},
        {"protocol": "icmp", "remote_group_id": web["id"]},
        {"protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "remote_address_group_id": addresses["id"]},
        {"protocol": "ipv6-icmp", "ethertype": "IPv6"},
    ):
        member.make("security_group_rule", security_group_id=web["id"], direction="ingress", **values)
    vm1 = admin.port(
        blue,
        project_id=PROJECT,
        name="vm1",
        device_id="b7a1bd01-17b9-4a3e-9c2d-0d0c8e6a1f01",
        security_groups=[web["id"]],
        allowed_address_pairs=[{"ip_address": "10.0.0.100"}],
        extra_dhcp_opts=[{"opt_name": "bootfile-name", "opt_value": "pxe.0"}],
        dns_name="vm1",
        binding__host_id=HOST,
        device_owner="compute:nova",
    )
    vm2 = admin.port(
        blue,
        project_id=PROJECT,
        name="vm2",
        device_id="b7a1bd01-17b9-4a3e-9c2d-0d0c8e6a1f02",
        binding__host_id="h2",
        device_owner="compute:nova",
    )
    admin.port(
        green,
        project_id=PROJECT,
        name="open",
        port_security_enabled=False,
        security_groups=[],
        binding__host_id=HOST,
        device_owner="compute:nova",
    )
    member.port(green, name="unbound")

    router = member.make("router", name="r1")
    attach(member, router, subnet_id=v4["id"]).expect(200)
    admin.change("router", router["id"], external_gateway_info={"network_id": out["id"], "qos_policy_id": gold["id"]})
    member.change("router", router["id"], routes=[{"destination": "10.10.0.0/16", "nexthop": "10.0.0.9"}])
    ha = admin.make("router", name="ha", ha=True, distributed=False, project_id=PROJECT)
    attach(admin, ha, subnet_id=green_v4["id"]).expect(200)
    admin.make("router", name="dvr", distributed=True, ha=False, project_id=PROJECT)
    member.make("floatingip", floating_network_id=out["id"], port_id=vm1["id"], qos_policy_id=gold["id"])
    forwarding = member.make("floatingip", floating_network_id=out["id"], description="port forwarding")
    fixed = vm2["fixed_ips"][0]["ip_address"]
    body = {
        "port_forwarding": {
            "external_port": 2222,
            "internal_port": 22,
            "protocol": "tcp",
            "internal_port_id": vm2["id"],
            "internal_ip_address": fixed,
        }
    }
    member.post(f"/floatingips/{forwarding['id']}/port_forwardings", body).expect(201)

    rules = [
        member.make("firewall_rule", name="allow-web", protocol="tcp", destination_port="80", action="allow")["id"],
        member.make("firewall_rule", name="deny", action="deny", source_ip_address="203.0.113.0/24")["id"],
    ]
    inbound = member.make("firewall_policy", name="inbound", firewall_rules=rules)
    member.make("firewall_group", name="edge", ingress_firewall_policy_id=inbound["id"], ports=[vm1["id"]])

    admin.make(
        "rbac_policy",
        collection="rbac-policies",
        object_type="network",
        object_id=green["id"],
        action="access_as_shared",
        target_project="0" * 32,
    )
    for kind, key in (("networks", blue["id"]), ("ports", vm1["id"]), ("routers", router["id"])):
        admin.put(f"/{kind}/{key}/tags", {"tags": ["prod", "tier=1"]}).expect(200)
    admin.put(f"/quotas/{PROJECT}", {"quota": {"network": 7, "port": 77}}).expect(200)
    profile = admin.make("service_profile", collection="service_profiles", description="ha", driver="ha")
    flavor = admin.make("flavor", name="fast", service_type="L3_ROUTER_NAT")
    admin.post(f"/flavors/{flavor['id']}/service_profiles", {"service_profile": {"id": profile["id"]}}).expect(201)


# --- the feed ---------------------------------------------------------------------------------------------------------


class Recorder:
    """A WebSocket proxy between a host and the feed that keeps all frames."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.frames: list[dict[str, Any]] = []

    @contextlib.asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        async with unix_serve(self._pass, str(path), compression=None):
            yield

    async def _pass(self, host: ServerConnection) -> None:
        assert host.request is not None
        headers = {name: host.request.headers[name] for name in (HOST_HEADER, "Authorization")}
        async with unix_connect(str(self._target), additional_headers=headers, compression=None) as server:
            copying = (self._copy("host", host, server), self._copy("server", server, host))
            _, pending = await asyncio.wait(map(asyncio.ensure_future, copying), return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()

    async def _copy(self, sender: str, source: Any, target: Any) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for data in source:
                self.frames.append({"from": sender, "frame": json.loads(data)})
                await target.send(data, text=True)


def states() -> list[AgentState]:
    """Of the four roles, as an agent's first report has them."""
    switch_ = {
        "bridge_mappings": {"physnet1": "br-ex"},
        "tunnel_types": ["vxlan"],
        "tunneling_ip": "192.0.2.1",
        "l2_population": True,
        "devices": 2,
        "dataplane": "ok",
    }
    return [
        AgentState(OVS, "neutron-openvswitch-agent", HOST, "N/A", configurations=switch_, start_flag=True),
        AgentState(DHCP, "neutron-dhcp-agent", HOST, "dhcp_agent", configurations={"networks": 2}, start_flag=True),
        AgentState(
            L3, "neutron-l3-agent", HOST, "l3_agent", configurations={"agent_mode": "dvr_snat"}, start_flag=True
        ),
        AgentState(METADATA, "neutron-metadata-agent", HOST, "N/A", configurations={}, start_flag=True),
    ]


async def report(client: FeedClient, admin: Api) -> None:
    """A connection with reports of every type."""
    task = asyncio.create_task(client.run())
    await until(lambda: client.is_synced, "the host is synced")
    client.report(states())
    for port in client.state.objects.get("port", {}).values():
        client.port_up(port.id, port.revision)
    for key in client.state.objects.get("dhcp_port", {}):
        client.port_ready(key, 1)
    for each in await asyncio.to_thread(admin.all, "/floatingips"):
        client.status("floatingip", each["id"], "ACTIVE")
    client.error("port", "00000000-0000-0000-0000-000000000000", "a problem")
    await until(lambda: client.unacknowledged == 0, "reports are acknowledged")
    await asyncio.sleep(1)  # changes by these reports arrive
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def converse(server: Server, admin: Api, directory: Path, credential: str) -> tuple[list[Any], str]:
    """A host connects, reports, and connects again with its cache. Returns frames and the cache file's text."""
    feed, proxy, cache = directory / "feed.sock", directory / "proxy.sock", directory / "feed.json"
    recorder = Recorder(feed)
    async with serving(server, Address(path=str(feed))), recorder.listening(proxy):
        for _ in range(2):
            address = Address(path=str(proxy))
            options = ClientOptions(address, HOST, credential, roles=ROLES, release=__version__, save_interval=0.01)
            await report(FeedClient(options, cache=cache), admin)
    return recorder.frames, cache.read_text()


# --- recording --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def databases(directory: Path) -> Iterator[dict[str, str]]:
    with Postgres() as postgres, MariaDB() as mariadb:
        yield {
            "sqlite": f"sqlite:///{directory}/neutrino.sqlite",
            "postgresql": postgres.create_database("neutrino"),
            "mariadb": mariadb.create_database("neutrino"),
        }


def tidy(text: str) -> str:
    """A dump without what depends on the machine and its minor version: comments, restrict keys, session settings."""
    lines = [line for line in text.splitlines() if not re.match(r"--|\\(un)?restrict|/\*M!999999|SET \w+ =|$", line)]
    return "\n".join(lines) + "\n"


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, databases(Path(name)) as urls:
        for kind, url in urls.items():
            directory = Path(name) / kind
            directory.mkdir()
            server = start(directory, url)
            admin = Api(server.app, project=PROJECT).as_admin()
            create_objects(server, admin)
            credential = Credentials(server.db).add(HOST, ROLES)
            frames, cache = asyncio.run(converse(server, admin, directory, credential))
            objects = read_all(admin)
            server.close()
            dump(url, target / f"{kind}.sql")
            (target / f"{kind}.sql").write_text(tidy((target / f"{kind}.sql").read_text()))
            (target / f"{kind}.json").write_text(json.dumps(objects, indent=1, sort_keys=True) + "\n")
            if kind == "sqlite":
                lines = "".join(json.dumps(frame, sort_keys=True) + "\n" for frame in frames)
                (target / "frames.jsonl").write_text(lines)
                (target / "feed.json").write_text(cache)
                (target / "credential").write_text(credential + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
