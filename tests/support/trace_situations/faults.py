"""Faults of hosts, made by hand behind the agents' backs, and undone."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from neutrino.lab.errors import wait_until
from neutrino.lab.settings import EXTERNAL_ADDRESSES
from tests.support.lab_guests import flows, wait_until_reachable
from tests.support.lab_trace import SOON, pings
from tests.support.routing_lab import EXTERNAL, MACHINE, active_host, host_of, hosts_of, in_router, without_ha_link
from tests.support.trace_situations.changes import Change
from tests.support.trace_situations.site import Site

# --- links ------------------------------------------------------------------------------------------------------------


def link_down(host: str, device: str) -> Change:
    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        site.lab.run(host, ["ip", "link", "set", device, "down"])
        try:
            yield
        finally:
            site.lab.run(host, ["ip", "link", "set", device, "up"])

    return change


@contextlib.contextmanager
def external_link_down(site: Site) -> Iterator[None]:
    """Of the host that has the legacy router."""
    with link_down(host_of(site.lab, site.routers["legacy"]), "external")(site):
        yield
    _settle(site, "legacy-left", MACHINE)


@contextlib.contextmanager
def silent_outside(site: Site) -> Iterator[None]:
    """The machine on the external network has lost its address: ARP requests for it get no reply."""
    (device,) = json.loads(site.lab.run(EXTERNAL, ["ip", "-json", "address", "show", "to", MACHINE]).stdout)
    words = EXTERNAL_ADDRESSES[0], "dev", device["ifname"]
    router = site.routers["legacy"]
    site.lab.run(EXTERNAL, ["ip", "address", "del", *words])
    try:
        # Nothing is sent for so long that the kernel has to ask again.
        in_router(site.lab, router, host_of(site.lab, router), "ip", "neigh", "flush", "to", MACHINE)
        yield
    finally:
        site.lab.run(EXTERNAL, ["ip", "address", "add", *words])
    _settle(site, "legacy-left", MACHINE)


@contextlib.contextmanager
def instance_link_down(site: Site) -> Iterator[None]:
    """The instance's own device is down: on its host, the other end has no carrier."""
    far = site.guests["far"]
    far.ip("link", "set", "eth0", "down")
    try:
        yield
    finally:
        far.ip("link", "set", "eth0", "up")
        site.lab.address("far")
        wait_until_reachable(site.guests["a"], far)


def _settle(site: Site, source: str, target: str) -> None:
    wait_until(lambda: pings(site.lab, source, target), SOON, f"{source} does not reach {target} again")


# --- instances and switches -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def unplugged(site: Site) -> Iterator[None]:
    """The instance is gone, and its port is bound to its host."""
    lab, far = site.lab, site.guests["far"]
    lab.unplug("far", "h2")
    lab.wait_for_port(far.vm, "DOWN")
    try:
        yield
    finally:
        lab.plug("far", "h2")
        lab.wait_for_port(far.vm)
        lab.address("far")
        wait_until_reachable(site.guests["a"], far)


@contextlib.contextmanager
def without_flows(site: Site) -> Iterator[None]:
    """Flows to an instance are deleted."""
    lab, far = site.lab, site.guests["far"]
    match = f"dl_dst={far.mac}"
    lab.run("h2", ["ovs-ofctl", "-O", "OpenFlow14", "del-flows", "br-int", match])
    assert match not in flows(lab, "h2")
    try:
        yield
    finally:  # the agent adds what is missing when it starts, long before it would look for drift by itself
        lab.stop_agent("h2")
        lab.start_agent("h2")
        wait_until_reachable(site.guests["a"], far)


@contextlib.contextmanager
def foreign_flow(site: Site) -> Iterator[None]:
    lab, far = site.lab, site.guests["far"]
    match = f"icmp,nw_dst={far.addresses[4]}"
    flow = f"table=0,priority=5000,{match},actions=drop"
    lab.run("h2", ["ovs-ofctl", "-O", "OpenFlow14", "add-flow", "br-int", flow])
    try:
        yield
    finally:
        lab.run("h2", ["ovs-ofctl", "-O", "OpenFlow14", "del-flows", "br-int", f"table=0,{match}"])
        wait_until_reachable(site.guests["a"], far)


@contextlib.contextmanager
def switch_down(site: Site) -> Iterator[None]:
    lab = site.lab
    lab.stop_ovs("h2", kill=True, database=False)
    try:
        yield
    finally:
        lab.start_ovs("h2")
        wait_until_reachable(site.guests["a"], site.guests["far"], timeout=30)


def agent_stopped(host: str) -> Change:
    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        site.lab.stop_agent(host)
        try:
            yield
        finally:
            site.lab.start_agent(host)

    return change


# --- routers ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def foreign_rule(site: Site) -> Iterator[None]:
    router, lab = site.routers["island"], site.lab
    host = host_of(lab, router)
    lines = (
        "add table inet byhand",
        "add chain inet byhand forward { type filter hook forward priority -10; }",
        "add rule inet byhand forward meta l4proto icmp drop",
    )
    for line in lines:
        in_router(lab, router, host, "nft", line)
    try:
        yield
    finally:
        in_router(lab, router, host, "nft", "delete table inet byhand", check=False)


def foreign_iptables(program: str) -> Change:
    """A rule by one of the variants of iptables in a router's namespace."""

    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        router, lab = site.routers["island"], site.lab
        host, rule = (
            host_of(lab, router),
            ("FORWARD", "-p", "icmp", "-m", "comment", "--comment", "theirs", "-j", "REJECT"),
        )
        in_router(lab, router, host, program, "-A", *rule)
        try:
            yield
        finally:
            in_router(lab, router, host, program, "-D", *rule, check=False)

    return change


@contextlib.contextmanager
def missing_route(site: Site) -> Iterator[None]:
    router, lab = site.routers["island"], site.lab
    host, prefix = host_of(lab, router), site.networks["shore"]["by_version"][4]["cidr"]
    route = in_router(lab, router, host, "ip", "route", "show", prefix).strip()
    in_router(lab, router, host, "ip", "route", "del", prefix)
    try:
        yield
    finally:
        in_router(lab, router, host, "ip", "route", "replace", *route.split(), check=False)


@contextlib.contextmanager
def without_translation(site: Site) -> Iterator[None]:
    """The chains of a router that translate sources are empty."""
    router, lab = site.routers["other"], site.lab
    host = host_of(lab, router)
    found = json.loads(in_router(lab, router, host, "nft", "-j", "list", "ruleset"))["nftables"]
    chains = [each["chain"] for each in found if each.get("chain", {}).get("hook") == "postrouting"]
    assert chains
    before = in_router(lab, router, host, "nft", "list", "ruleset")
    for chain in chains:
        in_router(lab, router, host, "nft", "flush", "chain", chain["family"], chain["table"], chain["name"])
    try:
        yield
    finally:
        assert in_router(lab, router, host, "nft", "list", "ruleset") != before
        lab.stop_agent(host)
        lab.start_agent(host)
        _settle(site, "behind", MACHINE)


@contextlib.contextmanager
def failed_over(site: Site) -> Iterator[None]:
    """The HA router is active on the other host, and stays there: the first one was without its link for a while."""
    router, lab = site.routers["ha"], site.lab
    hosts = sorted(hosts_of(lab, router))
    first = active_host(lab, router, among=hosts)
    (other,) = set(hosts) - {first}
    with without_ha_link(lab, router, first):
        wait_until(lambda: hosts_of(lab, router)[other] == "active", 2 * SOON, f"{router['name']} does not fail over")
    assert active_host(lab, router, among=hosts) == other
    _settle(site, "ha-left", MACHINE)
    yield
