"""Leftovers: which namespaces, switch ports and processes without a record are recognised, and removed by the roles."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.dhcp.network import NAMESPACE_KIND
from neutrino.agent.l3.names import FIP_KIND, PLUGGED, ROUTER_KIND, SNAT_KIND
from neutrino.agent.l3.services.keepalived.render import primary_address
from neutrino.agent.leftovers.host import Leftovers
from neutrino.agent.leftovers.recognise import LeftoverKind, neutron_daemon, obstacle, stale_ports
from neutrino.dataplane.iptables.api import without_neutron
from neutrino.dataplane.netlink.api import SetItem, SetVeth
from neutrino.dataplane.netlink.values import HOST, Device
from neutrino.dataplane.netlink.values import address as device_address
from neutrino.dataplane.ovsdb.api import MARK, OWNER, Interface, SetPort
from neutrino.dataplane.process.api import ForeignProcess
from tests.support.dhcp_fakes import DhcpHost
from tests.support.l3_host import Host, run
from tests.support.routing import address, interface, membership, router

ROUTER = "7e1ab6d2-0000-4000-8000-000000000001"
OTHER = "7e1ab6d2-0000-4000-8000-000000000002"
NETWORK = "2c5f09aa-0000-4000-8000-000000000003"
PORT = "0123abcd-ef01-4000-8000-000000000004"
STATE = "/var/lib/neutrino"
STATE_CHANGE = "neutron-keepalived-state-change"


def plugged(name: str, port_id: str = PORT, **more: str) -> Interface:
    return Interface(name, "internal", 1, external_ids={"iface-id": port_id, **more})


# --- decisions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [
        (ROUTER_KIND, f"qrouter-{ROUTER}", ROUTER),
        (SNAT_KIND, f"snat-{ROUTER}", ROUTER),
        (FIP_KIND, f"fip-{NETWORK}", NETWORK),
        (NAMESPACE_KIND, f"qdhcp-{NETWORK}", NETWORK),
        (ROUTER_KIND, f"qdhcp-{NETWORK}", ""),
        (ROUTER_KIND, "qrouter-mine", ""),
        (ROUTER_KIND, f"qrouter-{ROUTER}-old", ""),
        (ROUTER_KIND, f"x-qrouter-{ROUTER}", ""),
        (SNAT_KIND, f"snat-{ROUTER.upper()}", ""),
    ],
)
def test_only_a_prefix_with_a_uuid_is_the_name_of_a_leftover(kind: LeftoverKind, name: str, found: str) -> None:
    assert kind.object_id(name) == found


@pytest.mark.parametrize(
    ("kind", "devices", "reason"),
    [
        (ROUTER_KIND, [], ""),
        (ROUTER_KIND, [Device("lo"), Device("sit0"), Device("ip6tnl0")], ""),
        (ROUTER_KIND, [Device("qr-0123abcd-ef")], ""),
        (ROUTER_KIND, [Device("qr-0123abcd-ef"), Device("qg-99999999-99"), Device("rfp-7e1ab6d2-0")], ""),
        (ROUTER_KIND, [Device("rfp-7e1ab6d2-0")], ""),
        (FIP_KIND, [Device("fpr-7e1ab6d2-0")], ""),
        (NAMESPACE_KIND, [Device("ns-0123abcd-ef", "veth", peer="tap0123abcd-ef", peer_namespace="")], ""),
        (ROUTER_KIND, [Device("qr-0123abcd-ef"), Device("wg0")], "device wg0 is neither Neutron's nor this agent's"),
        (ROUTER_KIND, [Device("tap0123abcd-ef")], "device tap0123abcd-ef is neither"),
        (ROUTER_KIND, [Device("qr-backbone")], "device qr-backbone is neither"),
        (ROUTER_KIND, [Device("qg-99999999-99")], "device qg-99999999-99 is not a port of this host's switch"),
        (ROUTER_KIND, [Device("qr-0123abcd-ee")], "is not a port of this host's switch"),  # plugged for another port
        (NAMESPACE_KIND, [Device("ns-99999999-99", "veth", peer_namespace="other")], "is not a port of this host's"),
    ],
)
def test_a_namespace_is_recognised_by_its_devices(kind: LeftoverKind, devices: list[Device], reason: str) -> None:
    interfaces = {each.name: each for each in (plugged("qr-0123abcd-ef"), plugged("qr-0123abcd-ee"))}
    found = obstacle(kind, devices, interfaces, [], STATE)
    assert found.startswith(reason) or reason in found
    assert bool(found) == bool(reason)


def test_a_namespace_with_a_daemon_of_another_neutrino_agent_is_left_alone() -> None:
    own, neutron = ForeignProcess(1, ("dnsmasq",), STATE), ForeignProcess(2, ("/usr/sbin/dnsmasq",))
    assert obstacle(NAMESPACE_KIND, [], {}, [own, neutron], STATE) == ""
    other = ForeignProcess(3, ("dnsmasq",), "/srv/other")
    assert "state_path=/srv/other" in obstacle(NAMESPACE_KIND, [], {}, [own, other], STATE)


@pytest.mark.parametrize(("owner", "stays"), [("", False), (STATE, False), ("/srv/other", True)])
def test_a_namespace_with_a_port_of_another_neutrino_agent_is_left_alone(owner: str, stays: bool) -> None:
    """A router without daemons is recognised as another agent's by its switch port."""
    port = plugged("qr-0123abcd-ef", **({OWNER: owner} if owner else {}))
    found = obstacle(ROUTER_KIND, [Device("lo"), Device("qr-0123abcd-ef")], {port.name: port}, [], STATE)
    assert ("state_path=/srv/other" in found) is stays
    outer = {"tap0123abcd-ef": plugged("tap0123abcd-ef", **({OWNER: owner} if owner else {}))}
    pair = Device("qr-0123abcd-ef", kind="veth", peer="tap0123abcd-ef", peer_namespace=HOST)
    assert ("state_path=/srv/other" in obstacle(ROUTER_KIND, [pair], outer, [], STATE)) is stays


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (("dnsmasq", "--no-hosts", f"--pid-file=/var/lib/neutron/dhcp/{ROUTER}/pid"), "dnsmasq"),
        (("/usr/sbin/radvd", "-C", f"/var/lib/neutron/ra/{ROUTER}.radvd.conf"), "radvd"),
        (("/usr/sbin/keepalived", "-P", "-f", f"/var/lib/neutron/ha_confs/{ROUTER}/keepalived.conf"), "keepalived"),
        (("haproxy", "-f", f"/var/lib/neutron/ns-metadata-proxy/{ROUTER}.conf"), "haproxy"),
        (("/bin/sh", "/usr/bin/neutron-keepalived-state-change", "--router_id", ROUTER), STATE_CHANGE),
        ((f"neutron-keepalived-state-change (/usr/bin/python3 /usr/bin/x --conf_dir=/y/{ROUTER})",), STATE_CHANGE),
        ((f"haproxy-exporter (/usr/bin/haproxy-exporter {ROUTER})",), ""),
        (("dnsmasq", "--no-hosts"), ""),  # an operator's
        (("haproxy", "-f", f"/var/lib/neutron/ns-metadata-proxy/{OTHER}.conf"), ""),
        ((), ""),
        (("bash",), ""),
        (("tcpdump", "-i", "dnsmasq", ROUTER), ""),
        (("/usr/lib/ipsec/charon", ROUTER), ""),
    ],
)
def test_daemons_of_neutrons_agents_are_recognised_by_program_and_object(argv: tuple[str, ...], program: str) -> None:
    assert neutron_daemon(ForeignProcess(7, argv), ROUTER) == program
    assert neutron_daemon(ForeignProcess(7, argv, owner="/var/lib/neutrino"), ROUTER) == ""


def test_switch_ports_are_recognised_by_mark_or_by_a_routers_name_with_its_port_id() -> None:
    host = DhcpHost()
    wanted = "fedcba98-ef01-4000-8000-000000000004"
    for interface_ in (
        plugged("qr-0123abcd-ef"),
        plugged("tap0123abcd-e0"),  # may be an instance's
        plugged("tap0123abcd-e1", **{MARK: "service"}),
        plugged("tap0123abcd-e2", **{MARK: f"dhcp:{NETWORK}"}),
        plugged("qr-0123abcd-e5", **{MARK: "service", OWNER: "/srv/other"}),
        plugged("qg-0123abcd-e3"),  # the name was not cut from the port's id
        plugged("qr-fedcba98-ef", wanted),
        Interface("qr-0123abcd-e4", "internal", 1),  # without a port's id
    ):
        host.ovsdb.apply([
            SetPort("br-int", interface_.name, interface_.type, external_ids=interface_.external_ids)
        ])  # fmt: skip
    found = stale_ports(host.ovsdb.read(), PLUGGED, {"service"}, {wanted}, STATE)
    assert found == ["qr-0123abcd-ef", "tap0123abcd-e1"]


def test_iptables_rules_of_neutron_are_removed_and_others_stay() -> None:
    saved = """*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:neutron-l3-agent-PREROUTING - [0:0]
:operators - [0:0]
-A PREROUTING -j neutron-l3-agent-PREROUTING
-A PREROUTING -p tcp -j operators
-A neutron-l3-agent-PREROUTING -d 203.0.113.9/32 -j DNAT --to-destination 10.0.0.9
-A operators -j RETURN
COMMIT
"""
    kept = [":PREROUTING ACCEPT [0:0]", ":POSTROUTING ACCEPT [0:0]", ":operators - [0:0]"]
    kept += ["-A PREROUTING -p tcp -j operators", "-A operators -j RETURN"]
    assert without_neutron(saved).splitlines() == ["*nat", *kept, "COMMIT"]
    assert without_neutron(without_neutron(saved)) == "", "there are none any more"


# --- the roles --------------------------------------------------------------------------------------------------------


class Processes:
    """Processes by namespace."""

    def __init__(self) -> None:
        self.there: dict[str, list[ForeignProcess]] = {}
        self.ended: list[tuple[ForeignProcess, bool]] = []  # with whether by SIGKILL
        self.signals: list[tuple[ForeignProcess, int]] = []
        self.on_end: Callable[[ForeignProcess], None] = lambda process: None

    def inside(self, namespace: str) -> list[ForeignProcess]:
        return list(self.there.get(namespace, ()))

    def by_namespace(self, namespaces: Collection[str]) -> dict[str, list[ForeignProcess]]:
        return {name: list(several) for name, several in self.there.items() if name in namespaces}

    def send(self, process: ForeignProcess, number: int) -> bool:
        self.signals.append((process, number))
        return True

    def stop(self, process: ForeignProcess, *, kill: bool = False) -> None:
        self.ended.append((process, kill))
        self.on_end(process)
        for several in self.there.values():
            if process in several:
                several.remove(process)


class RouterHost(Host):
    """A host on which a Neutron agent has left a router in `qrouter-…`, `snat-…` and `fip-…`, with its daemons."""

    def __init__(self, state_path: Path, *, enabled: bool = True) -> None:
        self.foreign, self.enabled, self.ruled = Processes(), enabled, set[str]()
        super().__init__(state_path)

    def restart(self) -> None:
        super().restart()
        routers = self.role.routers
        routers.leftovers = Leftovers(
            routers.services, self.foreign, str(self.state_path), self.enabled, lambda name: name in self.ruled
        )
        routers.__post_init__()

    def leave(self, namespace: str, *ports: tuple[str, str], processes: tuple[ForeignProcess, ...] = ()) -> None:
        self.netlink.create_namespace(namespace)
        for name, port_id in ports:
            self.netlink.add_device(namespace, name)
            self.ovsdb.apply([SetPort("br-int", name, "internal", external_ids={"iface-id": port_id})])
        self.foreign.there[namespace] = list(processes)

    def plugged(self) -> set[str]:
        return set(self.ovsdb.read().bridges["br-int"].ports) - {"br-int"}


RADVD, SHELL = ForeignProcess(11, ("radvd", "-C", f"/x/{ROUTER}.radvd.conf")), ForeignProcess(12, ("bash",))


def left_by_neutron(host: RouterHost) -> None:
    host.leave(f"qrouter-{ROUTER}", ("qr-0123abcd-ef", PORT), processes=(RADVD, SHELL))
    host.leave(f"snat-{ROUTER}", ("qg-1123abcd-ef", "1123abcd-ef01-4000-8000-000000000004"))
    host.leave(f"fip-{NETWORK}", ("fg-2123abcd-ef", "2123abcd-ef01-4000-8000-000000000004"))
    host.ovsdb.apply([  # of a router whose namespace a reboot has removed, and an instance's port
        SetPort("br-int", "qr-3123abcd-ef", external_ids={"iface-id": "3123abcd-ef01-4000-8000-000000000004"}),
        SetPort("br-int", "tap4123abcd-ef", external_ids={"iface-id": "4123abcd-ef01-4000-8000-000000000004"}),
    ])  # fmt: skip
    host.leave("qrouter-mine", ("qr-5123abcd-ef", "5123abcd-ef01-4000-8000-000000000004"))
    host.leave(f"qrouter-{OTHER}", ("qr-6123abcd-ef", "6123abcd-ef01-4000-8000-000000000004"), ("wg0", OTHER))
    host.leave(f"qdhcp-{NETWORK}", ("tap7123abcd-ef", "7123abcd-ef01-4000-8000-000000000004"))


KEPT = {f"qdhcp-{NETWORK}", "qrouter-mine", f"qrouter-{OTHER}"}
GONE = {f"qrouter-{ROUTER}", f"snat-{ROUTER}", f"fip-{NETWORK}"}
KEPT_PORTS = {"tap4123abcd-ef", "qr-5123abcd-ef", "qr-6123abcd-ef", "wg0", "tap7123abcd-ef"}
GONE_PORTS = {"qr-0123abcd-ef", "qg-1123abcd-ef", "fg-2123abcd-ef", "qr-3123abcd-ef"}


def test_after_the_first_sync_leftovers_of_routers_are_shown_and_removed(tmp_path: Path) -> None:
    host = RouterHost(tmp_path)
    left_by_neutron(host)

    async def test() -> None:
        found = (await host.role.find()).plan
        assert f"router {ROUTER} is not served here any more" in found
        assert f"fip-{NETWORK} has to be removed" in found
        assert "unplug qr-3123abcd-ef" in found
        assert len(found.splitlines()) == 3
        host.role.synced()
        await host.until(lambda: host.netlink.namespaces() == KEPT, "the leftovers are removed")
        await host.until(lambda: host.plugged() == KEPT_PORTS, "and so are their ports")
        assert host.foreign.there[f"qrouter-{ROUTER}"] == [SHELL], "an operator's shell is not ended"
        assert await host.verified()

    run(host, test, synced=False)


def test_before_the_first_sync_leftovers_stay(tmp_path: Path) -> None:
    host = RouterHost(tmp_path)
    left_by_neutron(host)
    host.feed.is_synced = False

    async def test() -> None:
        host.send(router(interface(1), id=OTHER[:-1] + "9", gateway=None), OTHER[:-1] + "9")
        await host.until(lambda: f"qrouter-{OTHER[:-1]}9" in host.netlink.namespaces(), "the role works")
        await host.role.finish()
        assert host.netlink.namespaces() > GONE | KEPT
        assert host.plugged() > GONE_PORTS | KEPT_PORTS
        assert host.foreign.there[f"qrouter-{ROUTER}"] == [RADVD, SHELL]
        assert (await host.role.find()).plan == ""

    run(host, test, synced=False)


def test_leftovers_stay_where_the_option_is_off(tmp_path: Path) -> None:
    host = RouterHost(tmp_path, enabled=False)
    left_by_neutron(host)

    async def test() -> None:
        host.send(router(interface(1), id=OTHER[:-1] + "9", gateway=None), OTHER[:-1] + "9")
        await host.until(lambda: f"qrouter-{OTHER[:-1]}9" in host.netlink.namespaces(), "the role works")
        await host.role.finish()
        assert await host.verified()
        assert host.netlink.namespaces() > GONE | KEPT

    run(host, test)


def test_a_namespace_of_a_router_that_is_served_here_is_taken_over(tmp_path: Path) -> None:
    """It stays the same namespace; daemons of the other agent end, and its iptables rules go."""
    host = RouterHost(tmp_path)
    served = router(msgspec.structs.replace(interface(1), id=PORT), id=ROUTER, gateway=None)
    host.leave(f"qrouter-{ROUTER}", processes=(RADVD, SHELL))
    before = host.netlink.stack(f"qrouter-{ROUTER}")
    removed: list[str] = []
    leftovers = host.role.routers.leftovers
    assert leftovers is not None
    leftovers.neutron_rules = lambda name: bool(removed.append(name)) or True

    async def test() -> None:
        host.feed.is_synced = False
        host.send(served, ROUTER)
        await host.until(lambda: "qr-0123abcd-ef" in before.devices, "before `synced`, what is missing is added")
        await host.role.finish()
        assert (host.foreign.there[f"qrouter-{ROUTER}"], removed) == ([RADVD, SHELL], [])
        host.feed.is_synced = True
        host.role.synced()
        await host.until(lambda: host.foreign.there[f"qrouter-{ROUTER}"] == [SHELL], "the other's radvd ends")
        await host.until(lambda: (tmp_path / "routers" / ROUTER).exists(), "the router is recorded")
        assert removed == [f"qrouter-{ROUTER}"]
        assert host.netlink.stack(f"qrouter-{ROUTER}") is before
        assert await host.verified()
        host.foreign.there[f"qrouter-{ROUTER}"].append(RADVD)
        host.send(served, ROUTER)
        await host.role.finish()
        assert removed == [f"qrouter-{ROUTER}"], "taken over once"

    run(host, test, synced=False)


ADVERTISED = msgspec.structs.replace(
    interface(1, address("2001:db8:1::1", "2001:db8:1::/64", ra_mode="slaac")), id=PORT
)
KEEPALIVED = ForeignProcess(14, ("keepalived", "-P", "-f", f"/x/{ROUTER}/keepalived.conf"), started=7)


@pytest.mark.parametrize("kind", ["legacy", "HA", "distributed"])
def test_the_other_agents_radvd_is_killed_when_ours_runs(tmp_path: Path, kind: str) -> None:
    """On SIGTERM it would withdraw the default route of all instances."""
    host = RouterHost(tmp_path)
    more = {"HA": {"ha": membership()}, "distributed": {"distributed": True}}.get(kind, {})
    served = router(ADVERTISED, id=ROUTER, gateway=None, **more)  # type: ignore[arg-type]
    haproxy = ForeignProcess(13, ("haproxy", "-f", f"/x/{ROUTER}.conf"))
    keepalived = (KEEPALIVED,) if kind == "HA" else ()
    host.leave(f"qrouter-{ROUTER}", processes=(RADVD, haproxy, *keepalived, SHELL))
    if kind == "HA":  # this host is active: keepalived has set VRRP's own address
        ha = served.ha
        assert ha is not None
        name = f"ha-{ha.interface.id[:11]}"
        pair = SetVeth(name, f"tap{ha.interface.id[:11]}", HOST, ha.interface.mac_address, ha.interface.mtu)
        host.netlink.apply(f"qrouter-{ROUTER}", [pair, SetItem(device_address(name, primary_address(ha)))])
    running: list[bool] = []
    host.foreign.on_end = lambda process: running.append(f"radvd {ROUTER}" in host.processes.running())

    async def test() -> None:
        host.send(served, ROUTER)
        await host.until(lambda: (tmp_path / "routers" / ROUTER).exists(), "the router is recorded")
        assert host.foreign.ended == [(RADVD, True)], "haproxy is replaced by the metadata role"
        assert running == [True]

    run(host, test)


def test_a_takeover_without_our_radvd_is_repeated(tmp_path: Path) -> None:
    """The other agent's radvd goes on meanwhile."""
    host = RouterHost(tmp_path)
    own = address("2001:db8:1::1", "2001:db8:1::/64", ra_mode="slaac")
    served = router(msgspec.structs.replace(interface(1, own), id=PORT), id=ROUTER, gateway=None)
    host.leave(f"qrouter-{ROUTER}", processes=(RADVD,))
    host.processes.broken.add("radvd")

    async def test() -> None:
        host.send(served, ROUTER)
        await host.until(lambda: ROUTER in host.problems, "it cannot be started")
        assert host.foreign.there[f"qrouter-{ROUTER}"] == [RADVD]
        host.processes.broken.clear()
        host.send(served, ROUTER)
        await host.until(lambda: host.foreign.ended == [(RADVD, True)], "it is replaced")

    run(host, test)


@pytest.mark.parametrize("where", ["-f", "--use-file", "--use-file="])
def test_the_other_agents_keepalived_is_adopted_with_its_interval(tmp_path: Path, where: str) -> None:
    """Hosts with different intervals would all be active; Neutron's default is 2, and ours 1."""
    host = RouterHost(tmp_path)
    file = tmp_path / "neutron-keepalived.conf"
    file.write_text("vrrp_instance VR_7 {\n    state BACKUP\n    advert_int 2\n}\n")
    words = (f"{where}{file}",) if where.endswith("=") else (where, str(file))
    argv = ("keepalived", "-P", *words, "-p", f"{ROUTER}.pid.keepalived")
    theirs, child = ForeignProcess(14, argv, parent=1), ForeignProcess(15, argv, parent=14)
    monitor = ForeignProcess(
        16, ("/bin/sh", "/usr/bin/neutron-keepalived-state-change", "--namespace", f"qrouter-{ROUTER}")
    )
    events = ForeignProcess(17, ("ip", "-o", "monitor", "address"), parent=16)
    host.leave(f"qrouter-{ROUTER}", processes=(child, theirs, events))
    host.foreign.there[""] = [monitor, ForeignProcess(18, (*monitor.argv[:-1], f"qrouter-{OTHER}"))]
    name = f"keepalived {ROUTER}"
    served = router(interface(1), id=ROUTER, ha=membership())
    conf = tmp_path / "ha_confs" / ROUTER / "keepalived.conf"

    async def test() -> None:
        host.send(served, ROUTER)
        await host.until(lambda: ROUTER in host.problems, "the difference is a problem")
        assert "advert_int 2" in conf.read_text()
        assert file.read_text() == conf.read_text()
        assert "advert_int 2, and ha_vrrp_advert_int is 1" in host.problems[ROUTER]
        assert host.foreign.ended == [(monitor, True), (events, True)]
        assert (host.processes.running()[name].pid, host.processes.signals) == (14, [(name, signal.SIGHUP)])
        assert host.processes.started == []

    run(host, test)
    host.restart()

    async def again() -> None:
        await host.until(lambda: ROUTER in host.problems, "so it stays after a restart")
        assert "advert_int 2" in conf.read_text()
        assert host.processes.signals == [(name, signal.SIGHUP)], "nothing to reload"
        host.send(msgspec.structs.replace(served, admin_state_up=False), ROUTER)
        await host.until(lambda: not conf.exists(), "it is disabled")
        host.send(served, ROUTER)
        await host.until(conf.exists, "it is enabled")
        await host.until(lambda: ROUTER not in host.problems, "a group that is started anew has the option's interval")
        assert "advert_int 1" in conf.read_text()

    run(host, again)


def test_leftovers_of_networks_are_removed_by_the_dhcp_role_alone() -> None:
    host, foreign = DhcpHost(), Processes()
    services = host.reconciler.services
    host.reconciler.leftovers = Leftovers(services, foreign, STATE)
    host.reconciler.__post_init__()
    for name, device, port_id in (
        (f"qdhcp-{NETWORK}", "tap0123abcd-ef", PORT),
        (f"qrouter-{ROUTER}", "qr-1123abcd-ef", "1123abcd-ef01-4000-8000-000000000004"),
    ):
        host.netlink.create_namespace(name)
        host.netlink.add_device(name, device)
        host.ovsdb.apply([SetPort("br-int", device, "internal", external_ids={"iface-id": port_id})])
    foreign.there[f"qdhcp-{NETWORK}"] = [ForeignProcess(21, ("haproxy", "-f", f"/x/{NETWORK}.conf")), SHELL]

    async def test() -> None:
        task = asyncio.create_task(host.role.run())
        try:
            async with asyncio.timeout(10):
                await asyncio.sleep(0.05)
                assert f"qdhcp-{NETWORK}" in host.netlink.namespaces(), "not before the first `synced`"
                host.feed.is_synced = True
                assert (await host.role.find()).plan == f"network {NETWORK} is not served here any more"
                host.role.synced()
                while f"qdhcp-{NETWORK}" in host.netlink.namespaces():
                    await asyncio.sleep(0.005)
                await host.role.finish()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())
    assert host.netlink.namespaces() == {f"qrouter-{ROUTER}"}
    assert set(host.ovsdb.read().bridges["br-int"].ports) - {"br-int"} == {"qr-1123abcd-ef"}
    assert foreign.there[f"qdhcp-{NETWORK}"] == [SHELL]
