"""The contract of Conntrack: on the fake switch, on a real one with packets through it, and on both kinds of kernel's."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from neutrino.agent.l2.connections import plan_flushes
from neutrino.dataplane.conntrack import kernel, real
from neutrino.dataplane.conntrack.api import Connection, Conntrack, ConntrackError, ConntrackFlush
from neutrino.dataplane.conntrack.kernel import KernelConntrack
from neutrino.dataplane.conntrack.real import OvsConntrack
from tests.fakes import packet
from tests.fakes.conntrack import FakeKernelConntrack, FakeOvsConntrack, connection_of
from tests.fakes.openflow_conntrack import FakeConntrack
from tests.functional.test_dataplane_connections import CLIENT, NET, SERVER, RealHost
from tests.support.cpu_time import cpu_seconds
from tests.support.l2 import group, port, rule
from tests.support.openvswitch import OpenVSwitch
from tests.support.throwaway_namespace import ThrowawayNamespace

ICMP, TCP, UDP, ICMPV6 = 1, 6, 17, 58
ZONES = (1, 2)
ONE, OTHER = "fa:16:3e:00:00:01", "fa:16:3e:00:00:02"


@dataclasses.dataclass
class Tracked:
    """A tracker: what a driver does to it, how connections come into it, and what is in it."""

    conntrack: Conntrack
    open: Callable[[Connection], None]
    read: Callable[[], Iterable[Connection]]

    def opened(self, *connections: Connection) -> None:
        for connection in connections:
            self.open(connection)
        assert self.left() == set(connections)

    def left(self) -> set[Connection]:
        """What is there. Numbers that the test did not choose are left out."""
        return {
            dataclasses.replace(entry, source_port=0) if entry.icmp_type >= 0 else entry
            for entry in self.read()
            if entry.zone in ZONES
        }


def fake_switch() -> Tracked:
    tracker = FakeConntrack()

    def opened(connection: Connection) -> None:
        ends = (ONE, connection.source), (OTHER, connection.destination)
        if connection.icmp_type >= 0:
            sent = packet.icmp(*ends, connection.icmp_type, connection.icmp_code)
        else:
            values = {"tp_src": connection.source_port, "tp_dst": connection.destination_port}
            sent = packet.ip(*ends, connection.protocol, **values)
        tracker.commit(connection.zone, sent, None)

    return Tracked(FakeOvsConntrack(tracker), opened, lambda: [connection_of(entry) for entry in tracker.connections])


def real_switch(server: OpenVSwitch) -> Tracked:
    """A bridge with a port for each zone, whose packets are committed there."""
    for zone in ZONES:
        device = f"z{zone}"
        server.vsctl("add-port", "br-test", device, "--", "set", "interface", device, f"ofport_request={zone}")
        server.vsctl("set", "interface", device, "type=dummy")
        flows = (f"in_port={zone},{family},actions=ct(commit,zone={zone})" for family in ("ip", "ipv6"))
        for flow in flows:
            server.call("ovs-ofctl", "add-flow", f"unix:{server.run_directory}/br-test.mgmt", flow)

    def read() -> list[Connection]:
        return list(real.parse_connections(server.appctl("dpctl/dump-conntrack")))

    def opened(connection: Connection) -> None:
        server.appctl("netdev-dummy/receive", f"z{connection.zone}", frame(connection))
        deadline = time.monotonic() + 5
        while connection not in read():
            assert time.monotonic() < deadline, f"{connection} was not tracked"
            time.sleep(0.01)

    return Tracked(OvsConntrack(server.run_directory), opened, read)


def frame(connection: Connection) -> str:
    where = f"src={connection.source},dst={connection.destination},proto={connection.protocol}"
    if connection.family == 4:
        network = f"eth_type(0x0800),ipv4({where},tos=0,ttl=64,frag=no)"
    else:
        network = f"eth_type(0x86dd),ipv6({where},label=0,tclass=0,hlimit=64,frag=no)"
    transport = ""
    if connection.icmp_type >= 0:
        name = "icmp" if connection.family == 4 else "icmpv6"
        transport = f",{name}(type={connection.icmp_type},code={connection.icmp_code})"
    elif connection.protocol in (TCP, UDP):
        name = {TCP: "tcp", UDP: "udp"}[connection.protocol]
        transport = f",{name}(src={connection.source_port},dst={connection.destination_port})"
        transport += ",tcp_flags(syn)" if name == "tcp" else ""
    return f"in_port(1),eth(src={ONE},dst={OTHER}),{network}{transport}"


def fake_kernel() -> Tracked:
    tracker = FakeKernelConntrack()
    return Tracked(tracker, tracker.connections.add, lambda: tracker.connections)


def real_kernel(namespace: ThrowawayNamespace) -> Tracked:
    def opened(connection: Connection) -> None:
        command = ["conntrack", "-I", "-s", connection.source, "-d", connection.destination, "-t", "600"]
        command += ["-w", str(connection.zone), "-p", str(connection.protocol)]
        if connection.icmp_type >= 0:
            name = "icmp" if connection.family == 4 else "icmpv6"
            values = {"type": connection.icmp_type, "code": connection.icmp_code, "id": 7}
            command += [word for key, value in values.items() for word in (f"--{name}-{key}", str(value))]
        elif connection.protocol in (TCP, UDP):
            command += ["--sport", str(connection.source_port), "--dport", str(connection.destination_port)]
            command += ["--state", "ESTABLISHED"] if connection.protocol == TCP else []
        namespace.run(*command)

    def read() -> list[Connection]:
        return list(kernel.parse_connections(namespace.run("conntrack", "-L", "-o", "extended")))

    return Tracked(KernelConntrack("net", namespace.names), opened, read)


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as server:
        yield server


@pytest.fixture(params=["fake switch", "real switch", "fake kernel", "real kernel"])
def tracked(request: pytest.FixtureRequest) -> Iterator[Tracked]:
    match request.param:
        case "fake switch":
            yield fake_switch()
        case "fake kernel":
            yield fake_kernel()
        case "real kernel":
            with ThrowawayNamespace() as namespace:
                yield real_kernel(namespace)
        case "real switch":
            server: OpenVSwitch = request.getfixturevalue("switch")
            server.vsctl("add-br", "br-test", "--", "set", "bridge", "br-test", "datapath_type=dummy")
            try:
                yield real_switch(server)
            finally:
                server.appctl("dpctl/flush-conntrack")
                server.vsctl("del-br", "br-test")


def tcp(source: str, destination: str, number: int, zone: int = 1) -> Connection:
    return Connection(zone, 6 if ":" in source else 4, TCP, source, destination, 4000, number)


def udp(source: str, destination: str, number: int, zone: int = 1) -> Connection:
    return Connection(zone, 6 if ":" in source else 4, UDP, source, destination, 4000, number)


def echo(source: str, destination: str, zone: int = 1) -> Connection:
    return Connection(zone, 4, ICMP, source, destination, icmp_type=8, icmp_code=0)


A, B, C = "10.0.0.1", "10.0.0.2", "10.0.1.3"
A6, B6 = "2001:db8::1", "2001:db8::2"


def flush(direction: str, local: str, remote: str = "", **values: int) -> ConntrackFlush:
    family = 6 if ":" in local + remote else 4
    return ConntrackFlush(values.pop("zone", 1), family, direction, local, remote, **values)


def test_direction_is_that_of_the_first_packet(tracked):
    into, out = tcp(A, B, 80), tcp(B, A, 443)
    tracked.opened(into, out)
    tracked.conntrack.flush([flush("ingress", B, A)])
    assert tracked.left() == {out}
    tracked.conntrack.flush([flush("ingress", B, A), flush("egress", B, A)])
    assert tracked.left() == set()


def test_zones_are_separate(tracked):
    here, there = udp(A, B, 9, zone=1), udp(A, B, 9, zone=2)
    tracked.opened(here, there)
    tracked.conntrack.flush([flush("ingress", B, zone=2)])
    assert tracked.left() == {here}


def test_protocols_ports_and_types(tracked):
    web, ssh, dns, ping = tcp(A, B, 80), tcp(A, B, 22), udp(A, B, 53), echo(A, B)
    tracked.opened(web, ssh, dns, ping)
    tracked.conntrack.flush([flush("ingress", B, protocol=TCP, port_min=80, port_max=90)])
    assert tracked.left() == {ssh, dns, ping}
    tracked.conntrack.flush([flush("ingress", B, protocol=ICMP, port_min=13)])
    assert tracked.left() == {ssh, dns, ping}
    tracked.conntrack.flush([flush("ingress", B, protocol=ICMP, port_min=8), flush("ingress", B, protocol=UDP)])
    assert tracked.left() == {ssh}
    tracked.conntrack.flush([flush("ingress", B)])
    assert tracked.left() == set()


def test_prefixes(tracked):
    near, far, back = udp(A, B, 9), udp(C, B, 9), udp(B, C, 10)
    tracked.opened(near, far, back)
    tracked.conntrack.flush([flush("ingress", B, "10.0.0.0/24")])
    assert tracked.left() == {far, back}
    tracked.conntrack.flush([flush("ingress", "10.0.0.0/31", "10.0.0.0/8")])
    assert tracked.left() == {far, back}
    tracked.conntrack.flush(
        [flush("egress", "10.0.0.0/8", "0.0.0.0/0"), flush("ingress", "10.0.0.2/32", "10.0.1.3/32")]
    )
    assert tracked.left() == set()


def test_ipv6(tracked):
    kept, ended, old = tcp(A6, B6, 22), tcp(A6, B6, 80), tcp(A, B, 80)
    tracked.opened(kept, ended, old)
    tracked.conntrack.flush(
        [flush("ingress", "2001:db8:0::2", "2001:db8::/64", protocol=TCP, port_min=80, port_max=80)]
    )
    assert tracked.left() == {kept, old}


def test_any_address_of_a_zone(tracked):
    tracked.opened(tcp(A6, B6, 22), tcp(A, B, 80), udp(C, A, 9), kept := udp(C, A, 9, zone=2))
    tracked.conntrack.flush([ConntrackFlush(1, 4, "ingress", ""), ConntrackFlush(1, 6, "ingress", "")])
    assert tracked.left() == {kept}


def test_nothing_to_flush(tracked):
    tracked.opened(kept := tcp(A, B, 80))
    tracked.conntrack.flush([])
    tracked.conntrack.flush([flush("ingress", C)])
    assert tracked.left() == {kept}


def test_many_entries_at_once(tracked):
    """A group that loses its members: an entry for each."""
    gone = [udp(f"10.1.0.{number}", B, 9) for number in range(1, 41)]
    tracked.opened(*gone, kept := udp(A, B, 9))
    start = cpu_seconds()
    tracked.conntrack.flush(flush("ingress", B, f"10.{high}.0.{low}") for high in (1, 2, 3, 4) for low in range(1, 255))
    assert cpu_seconds() - start < 5
    assert tracked.left() == {kept}


# --- the switch ---


def test_the_switch_survives_a_flush_of_icmpv6(switch):
    switch.vsctl("add-br", "br-test", "--", "set", "bridge", "br-test", "datapath_type=dummy")
    try:
        tracked = real_switch(switch)
        ping = Connection(1, 6, ICMPV6, A6, B6, icmp_type=128, icmp_code=0)
        tracked.opened(ping, tcp(A6, B6, 80))
        tracked.conntrack.flush([flush("ingress", B6)])
        assert tracked.left() == {ping}  # the driver skips it: the command would crash the switch
    finally:
        switch.appctl("dpctl/flush-conntrack")
        switch.vsctl("del-br", "br-test")


def test_several_datapaths_require_a_name(switch):
    more = f"ct-{os.getpid()}"
    switch.vsctl("add-br", "br-test", "--", "set", "bridge", "br-test", "datapath_type=dummy")
    switch.vsctl("add-br", more, "--", "set", "bridge", more, "datapath_type=netdev")
    try:
        with pytest.raises(
            ConntrackError, match=r"dummy@ovs-dummy, netdev@ovs-netdev: the configuration does not name one"
        ):
            OvsConntrack(switch.run_directory).flush([flush("ingress", B)])
        with pytest.raises(ConntrackError, match="none of them is system@ovs-system"):
            OvsConntrack(switch.run_directory, datapath="system@ovs-system").flush([flush("ingress", B)])
        OvsConntrack(switch.run_directory, datapath="dummy@ovs-dummy").flush([flush("ingress", B)])
    finally:
        switch.vsctl("del-br", "br-test", "--", "del-br", more)


def test_a_switch_that_does_not_run(tmp_path: Path):
    with pytest.raises(ConntrackError, match=r"ovs-vswitchd\.pid"):
        OvsConntrack(str(tmp_path)).flush([flush("ingress", B)])
    (tmp_path / "ovs-vswitchd.pid").write_text("1\n")
    with pytest.raises(ConntrackError, match=r"ovs-vswitchd\.1\.ctl"):
        OvsConntrack(str(tmp_path)).flush([flush("ingress", B)])


# --- the kernel ---


@pytest.fixture(params=["fake", "real"])
def marking(request: pytest.FixtureRequest) -> Iterator[Tracked]:
    if request.param == "fake":
        yield fake_kernel()
        return
    with ThrowawayNamespace() as namespace:
        yield real_kernel(namespace)


def test_connections_are_read_by_zone_and_marked(marking):
    web, mail, other = tcp(A, B, 80), tcp(A6, B6, 25), udp(A, B, 9, zone=2)
    ping, tunnel = echo(A, B), Connection(1, 4, 50, A, B)
    marking.opened(web, mail, other, ping, tunnel)
    here = marking.conntrack.read([1])
    assert {entry.protocol for entry in here} == {TCP, ICMP, 50}
    assert set(marking.conntrack.read([1, 2])) - set(here) == {other}
    gone = tcp(C, B, 1)
    marking.conntrack.mark([*(entry for entry in here if entry != mail), gone], 1)
    assert {entry for entry in marking.conntrack.read([1, 2]) if not entry.mark} == {mail, other}
    marking.conntrack.mark([dataclasses.replace(web, mark=1)], 0)
    assert web in marking.conntrack.read([1])
    assert marking.conntrack.read([]) == ()


def test_connections_by_the_address_that_their_source_is_translated_to() -> None:
    def opened(
        protocol: str, source: str, remote: str, shown_as: str, *ports: str, reply_ports: tuple[str, ...]
    ) -> None:
        tuples = ("-s", source, "-d", remote, "-r", remote, "-q", shown_as, *ports, *reply_ports)
        state = ("--state", "ESTABLISHED") if protocol == "tcp" else ()
        namespace.run("conntrack", "-I", "-t", "600", "-p", protocol, *tuples, *state)

    def shown() -> set[str]:
        return {each.reply_destination for each in KernelConntrack("net", namespace.names).read([0])}

    ports, reply = ("--sport", "4000", "--dport", "80"), ("--reply-port-src", "80", "--reply-port-dst", "5000")
    with ThrowawayNamespace() as namespace:
        for number, (remote, address) in enumerate(
            (("198.51.100.9", "203.0.113.5"), ("198.51.100.9", "203.0.113.6"), ("198.51.100.9", "10.0.0.3"))
        ):
            for protocol in ("tcp", "udp"):
                opened(protocol, f"10.0.0.{number + 1}", remote, address, *ports, reply_ports=reply)
        opened("tcp", "fd00::1", "2001:db8:9::9", "2001:db8::5", *ports, reply_ports=reply)
        opened("tcp", "fd00::2", "2001:db8:9::9", "2001:db8::6", *ports, reply_ports=reply)
        tracker = KernelConntrack("net", namespace.names)
        assert shown() == {"203.0.113.5", "203.0.113.6", "10.0.0.3", "2001:db8::5", "2001:db8::6"}
        assert tracker.flush_translated({"203.0.113.6", "2001:db8::6"}) == 3
        assert shown() == {"203.0.113.6", "10.0.0.3", "2001:db8::6"}, "10.0.0.3 is the source itself"
        assert tracker.flush_translated({"203.0.113.6", "2001:db8::6"}) == 0


def test_without_a_namespace_it_is_the_one_we_are_in():
    """In a process of its own inside one: this machine's connections are nobody's to change."""
    program = (
        "from neutrino.dataplane.conntrack.kernel import KernelConntrack as K\n"
        "there = K().read([1]); K().mark(there, 1); print(*(entry.mark for entry in K().read([1])))\n"
    )
    with ThrowawayNamespace() as namespace:
        real_kernel(namespace).opened(tcp(A, B, 80), tcp(A6, B6, 25))
        assert namespace.run(sys.executable, "-c", program).split() == ["1", "1"]


def test_a_program_that_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConntrackError, match="conntrack"):
        KernelConntrack().read([1])


# --- with the firewall ---


@pytest.fixture
def host(switch) -> Iterator[RealHost]:
    made = RealHost(switch)
    yield made
    switch.appctl("dpctl/flush-conntrack")
    for bridge in switch.vsctl("list-br").split():
        switch.vsctl("del-br", bridge)


def changed(host: RealHost, *rules: object) -> None:
    """The server's rules; the client is not filtered here, as one on another host."""
    before = host.host.desired
    objects = [NET, group("web", *rules), port("p1", CLIENT, port_security_enabled=False)]
    host.apply(*objects, port("p2", SERVER, groups=["web"]))
    if before is not None:
        OvsConntrack(host.switch.run_directory).flush(plan_flushes(before, host.host.desired))


@pytest.mark.parametrize("protocol, number", [(UDP, 9), (TCP, 80)])
def test_a_stream_ends_with_its_rule_although_only_the_server_talks(host, protocol, number):
    there, back = (4000, number), (number, 4000)
    changed(host, rule(protocol=protocol, port_min=number, port_max=number))
    assert host.passes(CLIENT, SERVER, protocol, there)
    assert host.passes(SERVER, CLIENT, protocol, back)
    changed(host)
    assert not host.passes(SERVER, CLIENT, protocol, back)


@pytest.mark.parametrize("protocol, number", [(UDP, 9), (TCP, 80)])
def test_a_forbidden_connection_is_not_revived_by_its_server(host, protocol, number):
    """With the usual rule that lets a machine send anything, an answer must not open the connection again."""
    there, back = (4000, number), (number, 4000)
    changed(host, rule("egress"), rule(protocol=protocol, port_min=number, port_max=number))
    assert host.passes(CLIENT, SERVER, protocol, there)
    assert host.passes(SERVER, CLIENT, protocol, back)
    changed(host, rule("egress"))
    assert not host.passes(CLIENT, SERVER, protocol, there)
    assert not host.passes(SERVER, CLIENT, protocol, back)
    assert not host.passes(CLIENT, SERVER, protocol, there)
