"""An agent that is killed at any moment: the next one completes what it had begun, and nothing is left.

Every transition is repeated with the agent killed before and after each change of a namespace, a device, the switch or an
nft table. The next agent knows only what is on the host. Its cache is the desired state, or is from before the transition:
then it first adds what the cache has, as before the first `synced`.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.dhcp.network import ServedNetwork
from neutrino.agent.dhcp.reconcile import Reconciler
from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.router import DesiredRouters
from neutrino.agent.l3.routers import Routers
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.dataplane.netlink.api import DeleteDevice, MoveDevice, SetDevice, SetItem, SetVeth
from neutrino.dataplane.netlink.api import NetlinkChange as NetlinkChange
from neutrino.dataplane.netlink.values import HOST, route
from neutrino.dataplane.netlink.values import address as on_device
from neutrino.dataplane.nft.api import TablePlan
from neutrino.dataplane.ovsdb.api import Change, InterfaceEvent, SetBridge, SetPort
from neutrino.model.dhcp import DhcpPort
from neutrino.model.routing import FloatingIp, Router, RouterInterface, RouterRoute
from tests.fakes.netlink import FakeNetlink
from tests.fakes.nft import FakeNft
from tests.fakes.ovsdb import FakeOvsdb
from tests.fakes.process import FakeProcesses
from tests.support import dhcp
from tests.support.dhcp_fakes import FakeReleases
from tests.support.l3_host import Feed, Flushes
from tests.support.routing import GATEWAY, QG, address, floating, interface, membership, router
from tests.support.unsynced import files_below


class Killed(BaseException):
    """Passes every handler of the agent, as SIGKILL does."""


class Machine:
    """A host without an agent; `veth`: its switch has no internal ports, as on the userspace datapath."""

    def __init__(self, state_path: Path, *, veth: bool) -> None:
        self.netlink, self.ovsdb, self.state_path, self.veth = FakeNetlink(), FakeOvsdb(), state_path, veth
        self.nft = FakeNft(self.netlink)
        self._left: int | None = None  # changes before the agent is killed; None: it is not
        self._wrap()
        self.ovsdb.apply([SetBridge("br-int")])
        self.ovsdb.subscribe(self._follow)

    def kill_after(self, changes: int | None) -> None:
        self._left = changes

    def there(self) -> set[str]:
        """All state, a line for each object."""
        found = {f"host device {name}" for name in self.netlink.read(HOST).devices}
        for name in self.netlink.namespaces():
            state = self.netlink.read(name)
            found |= {f"{name} device {each}" for each in ("", *state.devices)}
            found |= {f"{name} address {each.device} {each.address}" for each in state.addresses if not each.by_kernel}
            found |= {f"{name} {each}" for each in (*state.routes, *state.rules, *state.neighbours)}
            found |= {f"{name} table {path} {table}" for path, table in self.nft.read(name).items()}
        interfaces = self.ovsdb.read().interfaces()
        found |= {f"plugged {name} {sorted(row.external_ids.items())}" for name, (_, _, row) in interfaces.items()}
        files = files_below(self.state_path).items()
        return found | {f"file {path.relative_to(self.state_path)} {text}" for path, text in files if text}

    def _follow(self, events: tuple[InterfaceEvent, ...]) -> None:
        """Creates and deletes the devices of internal ports, as ovs-vswitchd does."""
        for event in events:
            if event.interface.type == "internal" and event.what == "added":
                self.netlink.add_device(HOST, event.interface.name)
            elif event.interface.type == "internal" and event.what == "removed":
                for name in (HOST, *self.netlink.namespaces()):
                    stack = self.netlink.stack(name)
                    if event.interface.name in stack.devices:
                        stack.remove(stack.devices[event.interface.name])

    # --- the moments at which the agent may be killed ---------------------------------------------------------------

    def _step(self) -> None:
        if self._left is not None:
            if self._left == 0:
                raise Killed
            self._left -= 1

    def _wrap(self) -> None:
        netlink, switch, nft = self.netlink.apply, self.ovsdb.apply, self.nft.apply
        create, delete = self.netlink.create_namespace, self.netlink.delete_namespace

        def around(change: Callable[[], None]) -> None:
            self._step()
            change()
            self._step()

        def apply_in_kernel(namespace: str, changes: Iterable[NetlinkChange]) -> None:
            for each in tuple(changes):
                if isinstance(each, SetVeth | MoveDevice | DeleteDevice):
                    around(lambda each=each: netlink(namespace, [each]))  # type: ignore[misc]
                else:  # compared one by one with what the kernel has: the moment makes no difference
                    netlink(namespace, [each])

        def apply_in_switch(changes: Iterable[Change], *, wait: float = 0.0) -> None:
            around(lambda: switch(changes, wait=wait))

        def apply_tables(namespace: str, plan: TablePlan) -> None:
            around(lambda: nft(namespace, plan))

        self.netlink.apply, self.ovsdb.apply, self.nft.apply = (  # type: ignore[method-assign]
            *(apply_in_kernel, apply_in_switch, apply_tables),
        )
        self.netlink.create_namespace = lambda name: around(lambda: create(name))  # type: ignore[method-assign]
        self.netlink.delete_namespace = lambda name: around(lambda: delete(name))  # type: ignore[method-assign]


Work = Callable[[Machine], None]
WAYS = [(False, False), (True, False), (True, True)]


def expectation(directory: Path, reconcile: Work, *, veth: bool, prepare: Work = lambda machine: None) -> set[str]:
    machine = Machine(directory / "state", veth=veth)
    prepare(machine)
    reconcile(machine)
    found = machine.there()
    shutil.rmtree(directory / "state", ignore_errors=True)
    return found


def interrupted(directory: Path, prepare: Work, change: Work, *, veth: bool) -> Iterator[tuple[int, Machine]]:
    """A host on which the agent was killed during `change`, for each moment that left another state."""
    last: set[str] | None = None
    for moment in itertools.count():
        machine = Machine(directory / "state", veth=veth)
        prepare(machine)
        machine.kill_after(moment)
        try:
            change(machine)
        except Killed:
            machine.kill_after(None)
        else:
            break
        if machine.there() != last:
            last = machine.there()
            yield moment, machine
        shutil.rmtree(directory / "state", ignore_errors=True)
    assert moment > 0, "nothing was changed"


# --- routers ----------------------------------------------------------------------------------------------------------

SNAT = msgspec.structs.replace(
    interface(1, address("10.0.1.7", "10.0.1.0/24")), id="50000001-aaaa-bbbb-cccc-dddddddddddd"
)
HERE = FloatingIp(id="fip-9", floating_ip_address="203.0.113.9", fixed_ip_address="10.0.1.9", host="h1")


def agent_gateway(number: int) -> RouterInterface:
    return RouterInterface(
        id=f"dddddd{number:02}-aaaa-bbbb-cccc-dddddddddddd",
        network_id="outside",
        mac_address="fa:16:3e:00:06:01",
        addresses=(address(f"203.0.113.{70 + number}", "203.0.113.0/24", "203.0.113.1"),),
    )


def distributed(*floating_ips: FloatingIp, number: int = 1, centralized: bool = True) -> Router:
    return router(
        interface(1),
        distributed=True,
        centralized=centralized,
        snat_interfaces=(SNAT,),
        floating_ips=floating_ips,
        agent_gateway=agent_gateway(number) if floating_ips else None,
    )


ROUTERS: dict[str, tuple[Router | None, Router | None]] = {
    "created": (None, router(floating_ips=(floating(9, "10.0.1.5"),))),
    "deleted": (router(), None),
    "interface removed": (router(routes=(RouterRoute("10.9.0.0/24", "10.0.1.9"),)), router(interface(1))),
    "interface replaced": (router(interface(1)), router(interface(2))),
    "gateway removed": (router(), router(gateway=None)),
    "interface of an HA router removed": (router(ha=membership()), router(interface(1), ha=membership())),
    "distributed router created": (None, distributed(HERE)),
    "distributed router deleted": (distributed(HERE), None),
    "last distributed floating IP removed": (distributed(HERE), distributed()),
    "port of floating IPs replaced": (distributed(HERE), distributed(HERE, number=2)),
    "central part moved away": (distributed(HERE), distributed(HERE, centralized=False)),
    "distributed from now on": (router(interface(1)), distributed(HERE)),
    "centralized from now on": (distributed(HERE), router(interface(1))),
}


class RouterAgent:
    """What the L3 role does with one router."""

    def __init__(self, machine: Machine, *, keeps_devices: bool = False) -> None:
        self._feed, flushes = Feed(), Flushes()
        services = ServiceNamespaces(machine.netlink, lambda: machine.ovsdb, machine.nft, str(machine.state_path))
        state = str(machine.state_path)
        options = L3Options(host="h1", state_path=state, veth=machine.veth, keeps_devices=keeps_devices)
        self._routers = Routers(services, lambda name: flushes, options, DesiredRouters(self._feed))

    def _desire(self, wanted: Router | None, *, synced: bool) -> None:
        self._feed.is_synced = synced
        self._feed.state.objects["router"] = {"r1": wanted} if wanted is not None else {}

    def add(self, cached: Router | None) -> None:
        """Before the first `synced`."""
        self._desire(cached, synced=False)
        if cached is not None and not self._routers.has_other_kind(cached):
            self._routers.apply(cached, complete=False)

    def reconcile(self, wanted: Router | None) -> None:
        self._desire(wanted, synced=True)
        if wanted is None:
            if "r1" in self._routers.known():
                self._routers.remove("r1")
            return
        if self._routers.has_other_kind(wanted):
            self._routers.remove("r1")
        applied = self._routers.apply(wanted)
        if applied.taken_over:
            self._routers.complete_takeover(wanted, applied.taken_over)

    def drift(self, wanted: Router | None) -> list[str]:
        return self._routers.find(wanted) if wanted is not None else []


@pytest.mark.parametrize(("veth", "stale_cache"), WAYS)
@pytest.mark.parametrize("name", ROUTERS)
def test_a_router_is_as_desired_whenever_the_agent_was_killed(
    name: str, veth: bool, stale_cache: bool, tmp_path: Path
) -> None:
    before, after = ROUTERS[name]

    def reconcile(wanted: Router | None) -> Work:
        return lambda machine: RouterAgent(machine).reconcile(wanted)

    expected = expectation(tmp_path, reconcile(after), veth=veth)
    for moment, machine in interrupted(tmp_path, reconcile(before), reconcile(after), veth=veth):
        next_one = RouterAgent(machine)
        if stale_cache:
            next_one.add(before)
        next_one.reconcile(after)
        assert machine.there() == expected, f"killed at moment {moment}"
        assert next_one.drift(after) == []


TAKEN = router(interface(1), routes=(RouterRoute("10.9.0.0/24", "10.0.1.9"),))


def left_by_neutron(machine: Machine) -> None:
    """`TAKEN` with an interface and its gateway, of which nothing has to be changed; and a stale route."""
    name, static = "qrouter-r1", {"protocol": 4}
    machine.netlink.create_namespace(name)
    for device, port in (("qr-00000001-aa", interface(1)), (QG, GATEWAY)):
        ids = {"iface-id": port.id, "attached-mac": port.mac_address, "iface-status": "active"}
        machine.ovsdb.apply([SetPort("br-int", device, "internal", external_ids=ids)])
        machine.netlink.apply(HOST, [MoveDevice(device, name)])
        machine.netlink.apply(name, [SetDevice(device, mac=port.mac_address, mtu=port.mtu), SetDevice(device, up=True)])
        addresses = (on_device(device, each.prefixed) for each in port.addresses)
        machine.netlink.apply(name, [SetItem(each) for each in addresses])
    routes = (
        route("0.0.0.0/0", QG, "203.0.113.1", **static),
        route("10.9.0.0/24", "qr-00000001-aa", "10.0.1.9", **static),
        route("10.8.0.0/24", "qr-00000001-aa", "10.0.1.9", **static),
    )
    machine.netlink.apply(name, [SetItem(each) for each in routes])


@pytest.mark.parametrize("stale_cache", [False, True])
@pytest.mark.parametrize("veth", [False, True])
def test_a_router_of_neutron_is_taken_over_whenever_the_agent_was_killed(
    veth: bool, stale_cache: bool, tmp_path: Path
) -> None:
    """With `veth` its internal ports would be veth pairs if they were new: they stay, with all that is right."""

    def kept(machine: Machine) -> object:
        state = machine.netlink.read("qrouter-r1")
        right = {each for each in state.routes if each.destination != "10.8.0.0/24"}
        devices = {name: each.index for name, each in state.devices.items() if name != "lo"}
        return devices, {each for each in state.addresses if each.device != "lo"}, right

    def take_over(machine: Machine) -> None:
        RouterAgent(machine, keeps_devices=True).reconcile(TAKEN)

    first = Machine(tmp_path / "first", veth=veth)
    left_by_neutron(first)
    before = kept(first)
    expected = expectation(tmp_path, take_over, veth=veth, prepare=left_by_neutron)
    for moment, machine in interrupted(tmp_path, left_by_neutron, take_over, veth=veth):
        assert kept(machine) == before, f"killed at moment {moment}"
        next_one = RouterAgent(machine, keeps_devices=True)
        if stale_cache:
            next_one.add(TAKEN)
            assert kept(machine) == before
        next_one.reconcile(TAKEN)
        assert (machine.there(), kept(machine)) == (expected, before), f"killed at moment {moment}"
        assert next_one.drift(TAKEN) == []


# --- networks ---------------------------------------------------------------------------------------------------------

V4 = dhcp.subnet(1)
OWN, NEW = dhcp.dhcp_port(1, "10.0.0.2", on=(V4,)), dhcp.dhcp_port(7, "10.0.0.7", on=(V4,))
VM = dhcp.port(5, "10.0.0.5", on=(V4,))
GONE = dhcp.network(())


def served(*ports: DhcpPort) -> ServedNetwork:
    return dhcp.network((V4,), *ports, VM)


NETWORKS = {
    "served": (GONE, served(OWN)),
    "not served any more": (served(OWN), GONE),
    "DHCP port replaced": (served(OWN), served(NEW)),
}


class DhcpAgent:
    """What the DHCP role does with one network, without dnsmasq itself."""

    def __init__(self, machine: Machine) -> None:
        directory = str(machine.state_path / "dhcp")
        services = ServiceNamespaces(machine.netlink, lambda: machine.ovsdb, owner=str(machine.state_path))
        settings = dhcp.settings(use_veth=machine.veth, dhcp_confs=directory)
        dnsmasq = FakeReleases(directory, None)  # type: ignore[arg-type]
        self._reconciler = Reconciler(settings, services, FakeProcesses(), dnsmasq)

    def add(self, cached: ServedNetwork) -> None:
        if cached.is_served:
            self._reconciler.prepare(cached, complete=False)

    def reconcile(self, wanted: ServedNetwork) -> None:
        if wanted.is_served:
            self._reconciler.prepare(wanted)
        elif wanted.id in self._reconciler.known():
            self._reconciler.remove(wanted.id)


@pytest.mark.parametrize(("veth", "stale_cache"), WAYS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_as_desired_whenever_the_agent_was_killed(
    name: str, veth: bool, stale_cache: bool, tmp_path: Path
) -> None:
    before, after = NETWORKS[name]

    def reconcile(wanted: ServedNetwork) -> Work:
        return lambda machine: DhcpAgent(machine).reconcile(wanted)

    expected = expectation(tmp_path, reconcile(after), veth=veth)
    for moment, machine in interrupted(tmp_path, reconcile(before), reconcile(after), veth=veth):
        next_one = DhcpAgent(machine)
        if stale_cache:
            next_one.add(before)
        next_one.reconcile(after)
        assert machine.there() == expected, f"killed at moment {moment}"
