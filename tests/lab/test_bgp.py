"""BGP on real sessions: a router with FRR outside learns prefixes, its packets follow them, and it loses them again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.processes import is_alive
from neutrino.model.objects import Object
from tests.support.frr_peer import SOON, FrrPeer, frr_peer
from tests.support.lab import address, open_group
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    MACHINE6,
    attach,
    detach,
    drift_on,
    floating_ip,
    gateway_address,
    make_router,
    wait_until_reachable,
)

HOST, SPEAKER_ADDRESS, SPEAKER_ADDRESS6 = "h1", "203.0.113.9", "2001:db8:203:113::9"
LOCAL_AS, REMOTE_AS = 4200000001, 65000
PASSWORD = "s3cret?'x"
LAB = LabKind(
    hosts=1,
    roles=("l2", "l3", "bgp"),
    agent="""
[DEFAULT]
agent_mode = legacy
[agent]
repair_interval = 2
enable_distributed_routing = false
[bgp]
bgp_router_id = 192.0.2.9
connect_retry = 1
""",
)


def act(lab: Lab, speaker: Object, action: str, **body: str) -> None:
    lab.api.request("PUT", f"/v2.0/bgp-speakers/{speaker['id']}/{action}", body)


@dataclasses.dataclass
class Site:
    lab: Lab
    peer: FrrPeer
    speaker: Object
    bgp_peer: Object
    router: Object
    subnet: Object
    subnet6: Object
    out: Object

    def act(self, action: str, **body: str) -> None:
        act(self.lab, self.speaker, action, **body)

    def advertised(self) -> dict[str, str]:
        path = f"/v2.0/bgp-speakers/{self.speaker['id']}/get_advertised_routes"
        found = self.lab.api.request("GET", path)["advertised_routes"]
        return {each["destination"]: each["next_hop"] for each in found}

    @property
    def tenant(self) -> dict[str, str]:
        return {self.subnet["cidr"]: gateway_address(self.lab, self.router)}


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    # The host's own addresses on the network of its peer.
    lab.run(HOST, ["sysctl", "-qw", "net.ipv6.conf.br-ex.disable_ipv6=0"])
    for own in (f"{SPEAKER_ADDRESS}/24", f"{SPEAKER_ADDRESS6}/64"):
        lab.run(HOST, ["ip", "address", "add", own, "dev", "br-ex", *(["nodad"] if ":" in own else [])])
    lab.run(HOST, ["ip", "link", "set", "br-ex", "up"])
    api = lab.api
    pools, pools6 = (
        _pools(lab, 4, 24, "203.0.113.0/24", "10.64.0.0/16"),
        _pools(lab, 6, 64, "2001:db8:203:113::/64", "2001:db8:64::/48"),
    )
    provider = {"provider:network_type": "flat", "provider:physical_network": "external", "router:external": True}
    out, inside = api.create("network", name="out", **provider), api.create("network", name="inside")
    usable = [{"start": "203.0.113.10", "end": "203.0.113.250"}]
    given = {"cidr": "203.0.113.0/24", "gateway_ip": MACHINE, "allocation_pools": usable}
    both = {"ip_version": 4, "enable_dhcp": False}
    api.create("subnet", network_id=out["id"], subnetpool_id=pools[0]["id"], **given, **both)
    subnet = api.create("subnet", network_id=inside["id"], subnetpool_id=pools[1]["id"], **both)
    six = {"ip_version": 6, "enable_dhcp": False}
    given = {"cidr": "2001:db8:203:113::/64", "gateway_ip": MACHINE6}
    api.create("subnet", network_id=out["id"], subnetpool_id=pools6[0]["id"], **given, **six)
    subnet6 = api.create("subnet", network_id=inside["id"], subnetpool_id=pools6[1]["id"], **six)
    router = make_router(lab, out)
    for each in (subnet, subnet6):
        attach(lab, router, each)
    lab.vm("a", network=inside["id"], host=HOST, security_groups=[open_group(lab)])
    peer = api.create("bgp_peer", name="p", peer_ip=MACHINE, remote_as=REMOTE_AS, auth_type="md5", password=PASSWORD)
    speaker = api.create("bgp_speaker", name="s", local_as=LOCAL_AS, ip_version=4)
    neighbors = (SPEAKER_ADDRESS, SPEAKER_ADDRESS6)
    with frr_peer(lab, EXTERNAL, REMOTE_AS, neighbors, LOCAL_AS, PASSWORD) as frr:
        made = Site(lab, frr, speaker, peer, router, subnet, subnet6, out)
        made.act("add_gateway_network", network_id=out["id"])
        made.act("add_bgp_peer", bgp_peer_id=peer["id"])
        frr.wait_for_routes(made.tenant)
        yield made


def _pools(lab: Lab, version: int, length: int, *prefixes: str) -> list[Object]:
    """Pools of one address scope, for the external network and for tenants."""
    scope = lab.api.create("address_scope", name="global", ip_version=version)
    values = {"address_scope_id": scope["id"], "default_prefixlen": length}
    return [lab.api.create("subnetpool", name=prefix, prefixes=[prefix], **values) for prefix in prefixes]


def test_packets_follow_an_announced_prefix(site: Site) -> None:
    assert site.advertised() == site.tenant
    wait_until_reachable(site.lab, EXTERNAL, address(site.lab, "a"))
    # Its routes are for others: the host itself has none of them.
    routes = json.loads(site.lab.run(HOST, ["ip", "-j", "route"]).stdout)
    assert not [route for route in routes if route["dst"] == site.subnet["cidr"]]


def test_a_session_that_is_down_is_a_problem_in_the_status(site: Site) -> None:
    def problems() -> list[str]:
        found = site.lab.api.request("GET", "/v2.0/status")["status"]["problems"]
        return [each["what"] for each in found if each["kind"] == "bgp-session-down"]

    wait_until(lambda: problems() == [], SOON, "the session is established, and a problem still")
    site.peer.vtysh("configure terminal", f"router bgp {REMOTE_AS}", f"neighbor {SPEAKER_ADDRESS} shutdown")
    wait_until(lambda: bool(problems()), SOON, "the status does not know it")
    (text,) = problems()
    assert f"BGP session {MACHINE}: speaker {site.speaker['id']}, AS {REMOTE_AS}: its state is " in text
    assert PASSWORD not in text
    site.peer.vtysh("configure terminal", f"router bgp {REMOTE_AS}", f"no neighbor {SPEAKER_ADDRESS} shutdown")
    wait_until(lambda: problems() == [], SOON, "it is a problem still")
    site.peer.wait_for_routes(site.tenant)


def test_floating_ips_and_subnets_come_and_go_in_one_session(site: Site) -> None:
    before = site.peer.sessions(SPEAKER_ADDRESS)
    (port,) = (each for each in site.lab.api.list("port") if each["device_owner"].startswith("compute:"))
    floating = floating_ip(site.lab, site.out, port["id"])
    hop = gateway_address(site.lab, site.router)
    site.peer.wait_for_routes(site.tenant | {f"{floating['floating_ip_address']}/32": hop})
    assert site.advertised() == site.peer.routes()
    site.lab.api.delete("floatingip", floating["id"])
    site.peer.wait_for_routes(site.tenant)
    detach(site.lab, site.router, site.subnet)
    site.peer.wait_for_routes({})
    attach(site.lab, site.router, site.subnet)
    site.peer.wait_for_routes(site.tenant)
    assert site.peer.sessions(SPEAKER_ADDRESS) == before
    assert drift_on(site.lab, HOST) == ""


def test_a_restart_of_the_agent_keeps_the_session(site: Site) -> None:
    before = site.peer.sessions(SPEAKER_ADDRESS)
    site.lab.stop_agent(HOST, kill=True)
    assert site.peer.routes() == site.tenant
    site.lab.api.update("bgp_speaker", site.speaker["id"], advertise_tenant_networks=False)
    site.lab.start_agent(HOST)
    site.peer.wait_for_routes({})  # the new agent has taken the running bgpd over
    site.lab.api.update("bgp_speaker", site.speaker["id"], advertise_tenant_networks=True)
    site.peer.wait_for_routes(site.tenant)
    assert site.peer.sessions(SPEAKER_ADDRESS) == before


def test_a_session_needs_the_password_of_both(site: Site) -> None:
    key = site.bgp_peer["id"]
    site.lab.api.update("bgp_peer", key, password="wrong")
    site.peer.wait_for_routes({})
    site.lab.api.update("bgp_peer", key, password=PASSWORD)
    site.peer.wait_for_routes(site.tenant)
    arguments = site.lab.run(HOST, ["ps", "-eo", "args"]).stdout
    assert "--bgp_port 0" in arguments
    assert PASSWORD not in arguments


def test_a_speaker_that_is_deleted_leaves_nothing(site: Site) -> None:
    directory = site.lab.paths.host(HOST) / "bgp"
    config = directory / site.speaker["id"] / "bgpd.conf"
    assert config.stat().st_mode & 0o777 == 0o600
    pid = int((directory / site.speaker["id"] / "run" / "pid").read_text())
    site.lab.api.delete("bgp_speaker", site.speaker["id"])
    site.peer.wait_for_routes({})
    wait_until(lambda: not list(directory.iterdir()), SOON, "the speaker's directory is still there")
    assert not is_alive(pid)


def test_an_ipv6_session_announces_ipv6_prefixes(site: Site) -> None:
    lab, values = site.lab, {"auth_type": "md5", "password": PASSWORD}
    peer = lab.api.create("bgp_peer", name="p6", peer_ip=MACHINE6, remote_as=REMOTE_AS, **values)
    speaker = lab.api.create("bgp_speaker", name="s6", local_as=LOCAL_AS, ip_version=6)
    act(lab, speaker, "add_gateway_network", network_id=site.out["id"])
    act(lab, speaker, "add_bgp_peer", bgp_peer_id=peer["id"])
    announced = {site.subnet6["cidr"]: gateway_address(lab, site.router, 6)}
    site.peer.wait_for_routes(announced, 6)
    site.peer.wait_for_routes({})
    wait_until_reachable(lab, EXTERNAL, address(lab, "a", 6))
    before = site.peer.sessions(SPEAKER_ADDRESS6)
    detach(lab, site.router, site.subnet6)
    site.peer.wait_for_routes({}, 6)
    attach(lab, site.router, site.subnet6)
    site.peer.wait_for_routes(announced, 6)
    assert site.peer.sessions(SPEAKER_ADDRESS6) == before
    assert drift_on(lab, HOST) == ""
