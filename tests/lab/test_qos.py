"""QoS policies of ports, measured: bandwidth, packet rate, marks, changes in place, removal, live migration."""

from __future__ import annotations

import contextlib
import dataclasses
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
    cleaned,
    make_group,
    make_guests,
    make_network,
    wait_until_reachable,
)
from tests.support.lab_qos import Policy, about, classes, meters, queues, stream

RATE = 10_000  # kbit/s
WHO = [("limited", "tcp"), ("limited", "udp"), ("hybrid", "tcp"), ("free", "udp")]
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
        for guest in (self.limited, self.hybrid, self.free):
            assert not queues(self.lab, "h1", device(guest))

    def govern(self, guest: Guest) -> None:
        guest.update(qos_policy_id=self.policy.id)


def device(guest: Guest) -> str:
    return guest.vm.tap.replace("tap", "qvo", 1) if guest.vm.hybrid else guest.vm.tap


@pytest.fixture(scope="module")
def whole(session_lab: Lab) -> Iterator[Site]:
    with cleaned(session_lab) as lab:
        group, _ = make_group(lab, "open", *EVERYTHING)
        net = make_network(lab, "qos")
        policy = Policy(lab, "gold")
        guests = make_guests(
            lab,
            Spec("limited", net, "h1", [group]),
            Spec("peer", net, "h2", [group]),
            Spec("hybrid", net, "h1", [group], hybrid=True),
            Spec("free", net, "h1", [], {"port_security_enabled": False}),
        )
        for guest in guests[:1] + guests[2:]:
            wait_until_reachable(guests[1], guest)
        yield Site(lab, policy, *guests)
        for guest in guests:
            guest.update(qos_policy_id=None)
        policy.delete()


@pytest.fixture
def site(whole: Site) -> Iterator[Site]:
    yield whole
    whole.reset()


def metered(site: Site, rate: int, host: str = "h1") -> None:
    wait_until(
        lambda: rate in {found[1] for found in meters(site.lab, host).values()}, SOON, f"no meter of {rate} on {host}"
    )


def shaped(site: Site, guest: Guest, kbps: int) -> None:
    def applied() -> bool:
        return queues(site.lab, "h1", device(guest)).get(0, {}).get("max-rate") == str(kbps * 1000)

    wait_until(applied, SOON, f"{guest.name} is not shaped to {kbps} kbit/s")
    wait_until(lambda: "htb" in classes(site.lab, "h1", device(guest)), SOON, "the device has no queue")


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
    shaped(site, guest, RATE)
    assert not meters(site.lab, "h1")
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
    lab.start_agent("h1", {"agent": {"dscp_inherit": True}})
    with lab.capture("h1", outer, UNDERLAY) as seen:
        wait_until(lambda: _pings(site, 6) and bool(seen.lines), SOON, "no tunnel packet is marked")
    lab.stop_agent("h1")
    lab.start_agent("h1", {"agent": {"dscp": 46}})
    site.reset()
    with lab.capture("h1", outer, UNDERLAY) as seen:
        wait_until(lambda: _pings(site, 4) and bool(seen.lines), SOON, "no tunnel packet has the fixed mark")
    lab.stop_agent("h1")
    lab.start_agent("h1", {})
    with lab.capture("h1", outer, UNDERLAY) as seen:
        assert _pings(site, 4)
        assert not seen.lines


def _pings(site: Site, version: int) -> bool:
    argv = ["ping", "-n", "-q", "-c", "2", "-i", "0.05", "-W", "1", site.peer.addresses[version]]
    return site.lab.run(site.limited.name, argv, check=False).returncode == 0


def _flows(lab: Lab) -> set[str]:
    text = lab.run("h1", ["ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", "br-int"]).stdout
    return {line for line in text.splitlines() if "cookie=0x6e74726e" in line}


def test_limits_change_in_place_and_a_restart_changes_nothing(site: Site) -> None:
    lab = site.lab
    site.policy.set("bandwidth_limit", direction="egress", max_kbps=20_000)
    site.policy.set("bandwidth_limit", direction="ingress", max_kbps=20_000)
    site.policy.set("packet_rate_limit", direction="ingress", max_kpps=20)
    site.govern(site.limited)
    metered(site, 20_000)
    shaped(site, site.limited, 20_000)
    before, numbers = _flows(lab), {*meters(lab, "h1")}
    with Pinging(lab, site.peer.name, site.limited.addresses[4]) as ping:
        for kbps in (12_000, 15_000, RATE):
            site.policy.set("bandwidth_limit", direction="egress", max_kbps=kbps)
            site.policy.set("bandwidth_limit", direction="ingress", max_kbps=kbps)
            metered(site, kbps)
            shaped(site, site.limited, kbps)
    assert ping.sent > 20
    assert ping.lost == 0
    assert (_flows(lab), {*meters(lab, "h1")}) == (before, numbers)
    assert f"ceil {RATE // 1000}Mbit" in classes(lab, "h1", device(site.limited))
    about(lambda: stream(site.limited, site.peer, *UDP).mbits(), RATE / 1000)
    applied = meters(lab, "h1"), queues(lab, "h1", device(site.limited))
    lab.stop_agent("h1")
    lab.start_agent("h1")
    assert (_flows(lab), meters(lab, "h1"), queues(lab, "h1", device(site.limited))) == (before, *applied)


def test_a_removed_policy_leaves_nothing_behind(site: Site) -> None:
    lab, clean = site.lab, _flows(site.lab)
    site.policy.set("bandwidth_limit", direction="egress", max_kbps=RATE)
    site.policy.set("bandwidth_limit", direction="ingress", max_kbps=RATE)
    site.policy.set("packet_rate_limit", direction="ingress", max_kpps=1)
    site.policy.set("dscp_marking", dscp_mark=46)
    site.govern(site.limited)
    metered(site, RATE)
    shaped(site, site.limited, RATE)
    assert _flows(lab) != clean
    with pytest.raises(ApiError):
        site.policy.delete()
    site.limited.update(qos_policy_id=None)
    wait_until(lambda: _flows(lab) == clean, SOON, "flows are left")
    wait_until(lambda: not meters(lab, "h1"), SOON, "meters are left")
    wait_until(lambda: "htb" not in classes(lab, "h1", device(site.limited)), SOON, "a queue is left")
    for table in ("QoS", "Queue"):
        assert not lab.run("h1", ["ovs-vsctl", "--columns=_uuid", "list", table]).stdout.strip()


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
        assert [found[1] for found in meters(lab, "h3").values()] == [RATE]
        assert queues(lab, "h3", device(guest))[0]["max-rate"] == str(RATE * 1000)
    wait_until(lambda: not meters(lab, "h1"), SOON, "the source keeps the limit")
    wait_until_reachable(guest, site.peer)
    about(lambda: stream(guest, site.peer, *UDP).mbits(), RATE / 1000)
    about(lambda: stream(site.peer, guest, *UDP).mbits(), RATE / 1000)
    with _arriving(guest, "h1"):
        lab.api.request("PUT", f"/v2.0/ports/{guest.port_id}/bindings/h1/activate")
        lab.settle_vm(guest.name, "h1")
        lab.wait_for_port(guest.vm)
