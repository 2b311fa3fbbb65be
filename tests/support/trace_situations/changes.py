"""What situations change by the API, and undo."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from tests.support.lab_guests import allow, make_group
from tests.support.lab_trace import created, in_groups, updated
from tests.support.routing_lab import EXTERNAL, SOON, host_of, l3_agent, wait_until_reachable
from tests.support.trace_situations.site import Site
from tests.support.vpn_lab import KEY

Change = Callable[[Site], AbstractContextManager[Any]]


def ruled(*rules: dict[str, Any], member: str = "far", stateful: bool = True, lets_out: bool = True) -> Change:
    """The member is in a group with these rules alone."""

    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        group, _ = make_group(site.lab, "ruled", *rules, stateful=stateful, lets_out=lets_out)
        try:
            with in_groups(site.guests[member], group):
                site.groups["ruled"] = group
                yield
        finally:
            site.lab.api.delete("security_group", group)

    return change


def grouped(member: str, group: str) -> Change:
    return lambda site: in_groups(site.guests[member], site.groups[group])


def remote_group(name: str) -> Change:
    return lambda site: ruled(allow(remote_group_id=site.groups[name]))(site)


def address_group(*addresses: str) -> Change:
    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        values = {"addresses": list(addresses), "name": "some"}
        with contextlib.ExitStack() as stack:
            made = stack.enter_context(created(site.lab, "address-groups", "address_group", **values))
            stack.enter_context(ruled(allow(remote_address_group_id=made["id"]))(site))
            yield

    return change


def port(name: str, **values: Any) -> Change:
    return lambda site: updated(site.lab, "port", site.port(name), **values)


def network(name: str, **values: Any) -> Change:
    return lambda site: updated(site.lab, "network", site.networks[name]["id"], **values)


def router(name: str, **values: Any) -> Change:
    return lambda site: updated(site.lab, "router", site.routers[name]["id"], **values)


def routed(name: str, destination: str, next_hop: str) -> Change:
    """A route of a router by an instance or address."""

    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        route = {"destination": destination, "nexthop": site.address(next_hop)}
        with updated(site.lab, "router", site.routers[name]["id"], routes=[route]):
            yield

    return change


def spare_port(network_name: str = "blue", **values: Any) -> Change:
    """A port without an instance, as `spare`."""

    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        groups = [site.groups["open"]]
        key = site.networks[network_name]["id"]
        made = site.lab.api.create("port", network_id=key, security_groups=groups, **values)
        site.ports["spare"] = made
        try:
            yield
        finally:
            site.lab.api.delete("port", made["id"])

    return change


def firewall(where: str, action: str = "deny", direction: str = "ingress", **rule: Any) -> Change:
    """A firewall group with one rule, and everything else allowed, on an instance or on `ROUTER/NETWORK`."""

    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        lab, (name, _, net) = site.lab, where.partition("/")
        at = site.interface(name, net) if net else site.port(name)
        with contextlib.ExitStack() as stack:
            values = {"name": "rule", "action": action, **rule}
            first = stack.enter_context(created(lab, "fwaas/firewall_rules", "firewall_rule", **values))
            rest = stack.enter_context(
                created(lab, "fwaas/firewall_rules", "firewall_rule", name="rest", action="allow")
            )
            policies = [
                stack.enter_context(
                    created(lab, "fwaas/firewall_policies", "firewall_policy", name="policy", firewall_rules=rules)
                )["id"]
                for rules in ([first["id"], rest["id"]], [rest["id"]])
            ]
            with_rule, without = policies if direction == "ingress" else reversed(policies)
            sides = {"ingress_firewall_policy_id": with_rule, "egress_firewall_policy_id": without}
            group = stack.enter_context(
                created(lab, "fwaas/firewall_groups", "firewall_group", name="group", ports=[at], **sides)
            )
            # A group in use cannot be deleted.
            stack.callback(
                lab.api.request, "PUT", f"/v2.0/fwaas/firewall_groups/{group['id']}", {"firewall_group": {"ports": []}}
            )
            site.made["firewall"] = group["id"]
            yield

    return change


def forwarded(name: str, outer: int, inner: int) -> Change:
    """A floating IP with a port forwarding to an instance, as `forwarded`."""

    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        with created(site.lab, "floatingips", "floatingip", floating_network_id=site.out["id"]) as address:
            values = {
                "protocol": "tcp",
                "external_port": outer,
                "internal_port": inner,
                "internal_ip_address": site.address(name),
                "internal_port_id": site.port(name),
            }
            path = f"floatingips/{address['id']}/port_forwardings"
            site.addresses["forwarded"] = address["floating_ip_address"]
            with created(site.lab, path, "port_forwarding", **values):
                yield

    return change


@contextlib.contextmanager
def idle_floating_ip(site: Site) -> Iterator[None]:
    with created(site.lab, "floatingips", "floatingip", floating_network_id=site.out["id"]) as address:
        site.addresses["idle"] = address["floating_ip_address"]
        yield


def local_ip(*members: str) -> Change:
    """A local IP on blue, as `anycast`, associated with instances."""

    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        with created(site.lab, "local-ips", "local_ip", network_id=site.networks["blue"]["id"], name="anycast") as made:
            site.addresses["anycast"], site.made["anycast"] = made["local_ip_address"], made["id"]
            path = f"/v2.0/local_ips/{made['id']}/port_associations"
            for name in members:
                values = {"fixed_port_id": site.port(name), "fixed_ip": site.address(name)}
                site.lab.api.request("POST", path, {"port_association": values})
            try:
                yield
            finally:
                for name in members:
                    site.lab.api.request("DELETE", f"{path}/{site.port(name)}")

    return change


@contextlib.contextmanager
def unscheduled(site: Site) -> Iterator[None]:
    island, lab = site.routers["island"], site.lab
    agent = l3_agent(lab, host_of(lab, island))
    assert agent is not None
    lab.api.request("DELETE", f"/v2.0/agents/{agent['id']}/l3-routers/{island['id']}")
    try:
        yield
    finally:
        lab.api.request("POST", f"/v2.0/agents/{agent['id']}/l3-routers", {"router_id": island["id"]})
        wait_until_reachable(lab, "island", site.address("shore"), SOON)


@contextlib.contextmanager
def disabled_agent(site: Site) -> Iterator[None]:
    """The L3 agent of the island's router is disabled."""
    lab = site.lab
    agent = l3_agent(lab, host_of(lab, site.routers["island"]))
    assert agent is not None
    with updated(lab, "agent", agent["id"], admin_state_up=False):
        yield
    wait_until_reachable(lab, "island", site.address("shore"), SOON)


@contextlib.contextmanager
def route_outside(site: Site) -> Iterator[None]:
    """The machine outside has a route to the network that is not translated."""
    words = [site.networks["plain"]["by_version"][4]["cidr"], "via", site.addresses["gateway of plain"]]
    site.lab.run(EXTERNAL, ["ip", "route", "add", *words])
    try:
        yield
    finally:
        site.lab.run(EXTERNAL, ["ip", "route", "del", *words])


def vpn(status: str, **values: Any) -> Change:
    """A change of the first VPN connection, and the status that it comes to have."""

    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        end, connection = site.vpn[0]
        end.update(connection, **values)
        try:
            end.wait_for(connection, status)
            yield
        finally:
            end.update(connection, psk=KEY, admin_state_up=True)
            end.wait_for(connection, "ACTIVE")

    return change
