"""QoS policies of ports, measured: bandwidth, packet rate, marks, changes in place, removal, live migration."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator

import pytest

from neutrino.lab.api_client import ApiError
from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.namespaces import vm_network
from neutrino.lab.instances.addressing import apply_static
from neutrino.lab.settings import UNDERLAY, vm_namespace
from tests.support.lab import Pinging
from tests.support.lab_control import Lab
from tests.support.lab_guests import (
    EVERYTHING,
    SOON,
    Guest,
    Spec,
    make_group,
    make_guests,
    make_network,
    reaches,
    wait_until_reachable,
)
from tests.support.lab_qos import ATTEMPTS, Policy, about, classes, filters, meters, queues, stream

RATE = 10_000  # kbit/s
WHO = [("limited", "tcp"), ("limited", "udp"), ("hybrid", "tcp"), ("free", "udp")]
RATES = {"ovs": {"resource_provider_bandwidths": "br-provider:10000:10000, br-underlay:10000:10000"}}
UDP = ("-u", "-b", "20M", "-l", "1200")
MARKED = {4: "ip and ip[1] & 0xfc = 0xb8", 6: "ip6 and ip6[0:2] & 0x0fc0 = 0x0b80"}  # DSCP 46


@dataclasses.dataclass
class Site:
    lab: Lab
    policy: Policy
    limited: Guest  # on h1, has the policy
    peer: Guest  # on h2
    hybrid: Guest  # on h1, hybrid-plugged
    free: Guest  # on h1, without port security

    def reset(self) -> None:
        for guest in (self.limited, self.hybrid, self.free):
            guest.update(qos_policy_id=None)
        self.policy.clear()
        wait_until(lambda: not meters(self.lab, "h1"), SOON, "meters are left")
        wait_until(lambda: not any("dscp" in flow for flow in _flows(self.lab)), SOON, "flows that mark are left")

    def govern(self, guest: Guest) -> None:
        guest.update(qos_policy_id=self.policy.id)


@pytest.fixture(scope="module")
def whole(lab: Lab) -> Site:
    group, _ = make_group(lab, "open", *EVERYTHING)
    net = make_network(lab, "qos")
    policy = Policy(lab, "gold")
    lab.stop_agent("h1")
    lab.start_agent("h1", RATES)
    guests = make_guests(
        lab,
        Spec("limited", net, "h1", [group]),
        Spec("peer", net, "h2", [group]),
        Spec("hybrid", net, "h1", [group], hybrid=True),
        Spec("free", net, "h1", [], {"port_security_enabled": False}),
    )
    for guest in guests[:1] + guests[2:]:
        wait_until_reachable(guests[1], guest)
    return Site(lab, policy, *guests)


@pytest.fixture
def site(whole: Site) -> Iterator[Site]:
    yield whole
    whole.reset()


def metered(site: Site, rate: int, host: str = "h1") -> None:
    wait_until(
        lambda: rate in {found[1] for found in meters(site.lab, host).values()}, SOON, f"no meter of {rate} on {host}"
    )


@pytest.mark.parametrize("who, protocol", WHO)
def test_bandwidth_from_an_instance(site: Site, who: str, protocol: str) -> None:
    guest: Guest = getattr(site, who)
    site.policy.set("bandwidth_limit", direction="egress", max_kbps=RATE)
    site.govern(guest)
    metered(site, RATE)
    options = UDP if protocol == "udp" else ()
    about(lambda: stream(guest, site.peer, *options).mbits(), RATE / 1000)


@pytest.mark.parametrize("who, protocol", WHO)
def test_bandwidth_to_an_instance(site: Site, who: str, protocol: str) -> None:
    guest: Guest = getattr(site, who)
    site.policy.set("bandwidth_limit", direction="ingress", max_kbps=RATE)
    site.govern(guest)
    metered(site, RATE)  # not a queue, as the lab's datapath is in userspace
    options = UDP if protocol == "udp" else ()
    about(lambda: stream(site.peer, guest, *options).mbits(), RATE / 1000)


@pytest.mark.parametrize("direction", ["egress", "ingress"])
def test_packet_rate(site: Site, direction: str) -> None:
    """Together with a bandwidth limit that is far away: the port has both."""
    site.policy.set("bandwidth_limit", direction="egress", max_kbps=50_000)
    site.policy.set("packet_rate_limit", direction=direction, max_kpps=1, max_burst_kpps=1)
    site.govern(site.limited)
    metered(site, 1000)
    metered(site, 50_000)
    ends = (site.limited, site.peer) if direction == "egress" else (site.peer, site.limited)
    about(lambda: stream(*ends, "-u", "-b", "3M", "-l", "100").datagrams(100), 1000)


def test_marks_on_the_receiver_and_on_the_tunnel(site: Site) -> None:
    lab, peer = site.lab, site.peer
    site.policy.set("dscp_marking", dscp_mark=46)
    site.govern(site.limited)
    for version in (4, 6):
        wait_until_reachable(site.limited, peer, version)
        # The answer to a ping has the mark of the request, so only requests tell.
        marked = f"{MARKED[version]} and src host {site.limited.addresses[version]}"
        with lab.capture(peer.name, marked, "eth0") as seen:
            wait_until(
                lambda seen=seen, version=version: _pings(site, version) and bool(seen.lines), SOON, "nothing is marked"
            )
        with lab.capture(site.limited.name, marked, "eth0") as seen:
            assert _pings(site, version)
            assert not seen.lines  # the instance sends them unmarked
    outer = f"udp port 4789 and {MARKED[4]}"
    with lab.capture("h1", outer, UNDERLAY) as seen:
        assert _pings(site, 4)
        assert not seen.lines  # not without dscp_inherit
    lab.stop_agent("h1")
    lab.start_agent("h1", {**RATES, "agent": {"dscp_inherit": True}})
    with lab.capture("h1", outer, UNDERLAY) as seen:
        wait_until(lambda: _pings(site, 6) and bool(seen.lines), SOON, "no tunnel packet is marked")
    lab.stop_agent("h1")
    lab.start_agent("h1", RATES)
    with lab.capture("h1", outer, UNDERLAY) as seen:
        assert _pings(site, 4)
        assert not seen.lines


def _pings(site: Site, version: int) -> bool:
    return reaches(site.limited, site.peer.addresses[version])


def _flows(lab: Lab) -> set[str]:
    text = lab.run("h1", ["ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", "br-int"]).stdout
    return {line for line in text.splitlines() if "cookie=0x6e74726e" in line}


def test_limits_change_in_place_and_a_restart_changes_nothing(site: Site) -> None:
    lab = site.lab
    site.policy.set("bandwidth_limit", direction="egress", max_kbps=20_000)
    site.policy.set("bandwidth_limit", direction="ingress", max_kbps=20_000)
    site.policy.set("packet_rate_limit", direction="ingress", max_kpps=20)
    site.govern(site.limited)
    wait_until(lambda: _limits(site) == [20_000] * 3, SOON, "not all limits are applied")
    before, numbers = _flows(lab), {*meters(lab, "h1")}
    with Pinging(lab, site.peer.name, site.limited.addresses[4]) as ping:
        for kbps in (12_000, 15_000, RATE):
            site.policy.set("bandwidth_limit", direction="egress", max_kbps=kbps)
            site.policy.set("bandwidth_limit", direction="ingress", max_kbps=kbps)
            wait_until(lambda kbps=kbps: _rates(site) == [kbps, kbps, 20_000], SOON, f"no meters of {kbps}")
    assert ping.sent > 5
    assert ping.lost == 0
    assert (_flows(lab), {*meters(lab, "h1")}) == (before, numbers)
    about(lambda: stream(site.limited, site.peer, *UDP).mbits(), RATE / 1000)
    applied = meters(lab, "h1")
    lab.stop_agent("h1")
    lab.start_agent("h1")
    assert (_flows(lab), meters(lab, "h1")) == (before, applied)


def _rates(site: Site) -> list[int]:
    return sorted(rate for _, rate, _ in meters(site.lab, "h1").values())


def _limits(site: Site) -> list[int]:
    """The rates of the meters that flows use: a meter is added before the flows that send packets through it."""
    used = {int(number) for flow in _flows(site.lab) for number in re.findall(r"meter:(\d+)", flow)}
    return sorted(rate for number, (_, rate, _) in meters(site.lab, "h1").items() if number in used)


def test_a_removed_policy_leaves_nothing_behind(site: Site) -> None:
    lab, clean = site.lab, _flows(site.lab)
    site.policy.set("bandwidth_limit", direction="egress", max_kbps=RATE)
    site.policy.set("bandwidth_limit", direction="ingress", max_kbps=RATE)
    site.policy.set("packet_rate_limit", direction="ingress", max_kpps=1)
    site.policy.set("dscp_marking", dscp_mark=46)
    site.govern(site.limited)
    wait_until(lambda: _limits(site) == [1000, RATE, RATE], SOON, "not all limits are applied")
    assert _flows(lab) != clean
    with pytest.raises(ApiError):
        site.policy.delete()
    site.limited.update(qos_policy_id=None)
    wait_until(lambda: _flows(lab) == clean, SOON, "flows are left")
    wait_until(lambda: not meters(lab, "h1"), SOON, "meters are left")


def test_a_network_policy_is_for_its_instances_without_a_policy_of_their_own(site: Site) -> None:
    lab, network_id = site.lab, site.limited.port["network_id"]
    site.policy.set("bandwidth_limit", direction="egress", max_kbps=7000)
    lab.api.update("network", network_id, qos_policy_id=site.policy.id)
    try:
        wait_until(lambda: len(meters(lab, "h1")) == 3, SOON, "not all instances have the network's policy")
        own = Policy(lab, "own")
        own.set("bandwidth_limit", direction="egress", max_kbps=9000)
        site.limited.update(qos_policy_id=own.id)
        wait_until(
            lambda: sorted(found[1] for found in meters(lab, "h1").values()) == [7000, 7000, 9000],
            SOON,
            "the port's own policy does not take precedence",
        )
        site.limited.update(qos_policy_id=None)
        own.delete()
    finally:
        lab.api.update("network", network_id, qos_policy_id=None)
    wait_until(lambda: not meters(lab, "h1"), SOON, "meters are left")


@dataclasses.dataclass(frozen=True)
class Rivals:
    """Two instances on h1 that send to one on h2, through one uplink."""

    senders: tuple[Guest, Guest]
    receiver: Guest
    uplink: str


@pytest.fixture(params=["vlan", "vxlan"])
def rivals(request: pytest.FixtureRequest, site: Site) -> Iterator[Rivals]:
    if request.param == "vxlan":
        yield Rivals((site.limited, site.free), site.peer, UNDERLAY)
        return
    lab = site.lab
    group, _ = make_group(lab, "all", *EVERYTHING)
    net = make_network(lab, "tagged", **{"provider:network_type": "vlan", "provider:physical_network": "physnet1"})
    specs = (Spec(name, net, host, [group]) for name, host in (("one", "h1"), ("two", "h1"), ("far", "h2")))
    one, two, far = make_guests(lab, *specs)
    for guest in (one, two):
        wait_until_reachable(far, guest)
    yield Rivals((one, two), far, "provider")
    for guest in (one, two, far):
        guest.update(qos_policy_id=None)
        lab.delete_vm(guest.name)


def test_minimum_bandwidth_under_contention(site: Site, rivals: Rivals) -> None:
    """Of 10 Mbit/s that the uplink sends, one of two instances is guaranteed 7.5: whichever has the policy."""
    lab = site.lab
    site.policy.set("minimum_bandwidth", direction="egress", min_kbps=7500)
    for favoured, other in (rivals.senders, rivals.senders[::-1]):
        site.govern(favoured)
        wait_until(lambda: len(queues(lab, "h1", rivals.uplink)) == 2, SOON, "the uplink has no queue")
        wait_until(lambda: "flowid" in filters(lab, "h1", rivals.uplink), SOON, "the uplink has no filter")
        _contend(favoured, other, rivals.receiver)
        favoured.update(qos_policy_id=None)
        wait_until(lambda: not queues(lab, "h1", rivals.uplink), SOON, "queues are left")
        wait_until(lambda: "htb" not in classes(lab, "h1", rivals.uplink), SOON, "the device is still shaped")
        for table in ("QoS", "Queue"):
            rows = ["ovs-vsctl", "--columns=_uuid", "list", table]
            wait_until(lambda rows=rows: not lab.run("h1", rows).stdout.strip(), SOON, f"rows of {table} are left")  # type: ignore[misc]


def _contend(favoured: Guest, other: Guest, receiver: Guest) -> None:
    found = []
    for _ in range(ATTEMPTS):
        streams = [stream(each, receiver, port=5201 + place) for place, each in enumerate((favoured, other))]
        found.append(tuple(round(each.mbits(), 1) for each in streams))
        # As a share: a machine that is busy with other work sends less than the uplink would.
        guaranteed, total = found[-1][0], sum(found[-1])
        if guaranteed >= 0.9 * 0.75 * total and total <= 1.1 * 10 and found[-1][1] > 0:
            return
    raise AssertionError(f"guaranteed 7.5 of 10 Mbit/s, got {found}")


@contextlib.contextmanager
def _arriving(guest: Guest, host: str) -> Iterator[None]:
    """The instance is plugged on the other host too, with an inactive binding."""
    lab, path = guest.lab, f"/v2.0/ports/{guest.port_id}/bindings"
    source = guest.vm.host
    lab.api.request("POST", path, {"binding": {"host": host}})
    lab.plug(guest.name, host)
    subnets = lab.api.list("subnet", network_id=guest.port["network_id"])
    apply_static(vm_network(lab.holder(host), vm_namespace(guest.name)), guest.port, subnets)
    yield
    lab.unplug(guest.name, source)
    lab.api.request("DELETE", f"{path}/{source}")


def test_a_live_migrated_instance_has_its_limits_on_arrival(site: Site) -> None:
    lab, guest = site.lab, site.limited
    site.policy.set("bandwidth_limit", direction="egress", max_kbps=RATE)
    site.policy.set("bandwidth_limit", direction="ingress", max_kbps=RATE)
    site.govern(guest)
    metered(site, RATE)
    with _arriving(guest, "h3"):
        lab.api.request("PUT", f"/v2.0/ports/{guest.port_id}/bindings/h3/activate")
        lab.settle_vm(guest.name, "h3")
        lab.wait_for_port(guest.vm)
        # Whatever is reported as up has its limits already.
        assert [found[1] for found in meters(lab, "h3").values()] == [RATE, RATE]
    wait_until(lambda: not meters(lab, "h1"), SOON, "the source keeps the limit")
    wait_until_reachable(guest, site.peer)
    about(lambda: stream(guest, site.peer, *UDP).mbits(), RATE / 1000)
    about(lambda: stream(site.peer, guest, *UDP).mbits(), RATE / 1000)
    with _arriving(guest, "h1"):
        lab.api.request("PUT", f"/v2.0/ports/{guest.port_id}/bindings/h1/activate")
        lab.settle_vm(guest.name, "h1")
        lab.wait_for_port(guest.vm)
