"""VMs of a lab for packet tests: created in batches, with their addresses and with sockets inside them.

blue = make_network(lab, "blue")
a, b = make_guests(lab, Spec("a", blue, "h1", [group]), Spec("b", blue, "h2", [group]))
wait_until(lambda: can_ping(a, b), 10, "a does not reach b")
with converse(a, b, 80) as connection:
    assert connection.talks()
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import secrets
import selectors
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.namespaces import in_network, vm_network
from neutrino.lab.instances.plug import Vm
from neutrino.lab.settings import vm_namespace
from neutrino.lab.timing import Deadline, scaled
from neutrino.model.objects import Object
from tests.support.lab_control import Lab

T = TypeVar("T")
VERSIONS = (4, 6)
_FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
SOON = 30.0  # seconds within which a change must take effect, on a busy machine
LOST_AFTER = scaled(0.4)  # seconds after which a packet counts as lost
PATIENCE = scaled(10.0)  # seconds for a packet that must arrive: a busy machine may deliver it late


# --- the cloud --------------------------------------------------------------------------------------------------------


def make_network(lab: Lab, name: str, **attributes: Any) -> Object:
    """A network with both versions, on which nothing is but what a test puts there: no DHCP server, no router. Ports get
    the lower addresses: those from 10.0.0.200 and fd00:10::200 are free.
    """
    made = lab.api.create("network", name=name, **attributes)
    for version, cidr, pool in (
        (4, "10.0.0.0/24", {"start": "10.0.0.10", "end": "10.0.0.199"}),
        (6, "fd00:10::/64", {"start": "fd00:10::10", "end": "fd00:10::199"}),
    ):
        values = {"ip_version": version, "cidr": cidr, "allocation_pools": [pool], "enable_dhcp": False}
        lab.api.create("subnet", network_id=made["id"], **values)
    return made


def make_group(
    lab: Lab, name: str, *rules: Mapping[str, Any], stateful: bool = True, lets_out: bool = True
) -> tuple[str, list[str]]:
    """A security group and the ids of its rules. It allows all egress, unless stated."""
    made = lab.api.create("security_group", name=name, stateful=stateful)
    if not lets_out:
        for rule in made["security_group_rules"]:
            lab.api.delete("security_group_rule", rule["id"])
    return made["id"], [add_rule(lab, made["id"], rule) for rule in rules]


def add_rule(lab: Lab, group: str, rule: Mapping[str, Any]) -> str:
    made = lab.api.create("security_group_rule", **{"security_group_id": group, "direction": "ingress"} | dict(rule))
    return str(made["id"])


def allow(protocol: str | int | None = None, ports: int | tuple[int, int] | None = None, **more: Any) -> dict[str, Any]:
    """A rule's values: ingress and IPv4 unless `more` overrides it; one port, or the first and the last."""
    values: dict[str, Any] = {} if protocol is None else {"protocol": str(protocol)}
    if ports is not None:
        low, high = ports if isinstance(ports, tuple) else (ports, ports)
        values |= {"port_range_min": low, "port_range_max": high}
    return {"ethertype": "IPv4"} | values | more


EVERYTHING = ({"ethertype": "IPv4"}, {"ethertype": "IPv6"})


@dataclasses.dataclass(frozen=True)
class Spec:
    """A VM to be created; `values` are attributes of its port."""

    name: str
    network: Object
    host: str
    groups: Sequence[str] | None = None
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hybrid: bool = False


@dataclasses.dataclass(frozen=True)
class Guest:
    """A VM with one port, as created."""

    lab: Lab
    name: str
    port_id: str
    mac: str
    addresses: Mapping[int, str] = dataclasses.field(hash=False)  # by IP version
    place: str | None = None  # the host where it is used; None: the host of its record
    device: str = "eth0"

    @property
    def vm(self) -> Vm:
        return self.lab.vms.get(self.name)

    @property
    def host(self) -> str:
        return self.place or self.vm.host

    @property
    def port(self) -> Object:
        return self.lab.api.show("port", self.port_id)

    def at(self, host: str) -> Guest:
        """The same VM on another host, during live migration."""
        return dataclasses.replace(self, place=host)

    def inside(self, work: Callable[[], T]) -> T:
        return in_network(vm_network(self.lab.holder(self.host), vm_namespace(self.name)), work)

    def socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        return self.inside(lambda: socket.socket(family, kind, protocol))

    def ip(self, *arguments: str) -> str:
        return self.lab.run(self.name, ["ip", *arguments]).stdout

    def update(self, **values: Any) -> Object:
        return self.lab.api.update("port", self.port_id, **values)


def make_guests(lab: Lab, *specs: Spec) -> list[Guest]:
    """Create VMs in one batch: bound, plugged, ACTIVE and addressed."""
    guests = [_define(lab, spec) for spec in specs]
    by_host: dict[str, list[str]] = defaultdict(list)
    for spec in specs:
        by_host[spec.host].append(spec.name)
    for host, names in by_host.items():
        lab.plug_all(names, host)
    for guest in guests:
        lab.wait_for_port(guest.vm)
        lab.address(guest.name)
    return guests


def _define(lab: Lab, spec: Spec) -> Guest:
    groups = {} if spec.groups is None else {"security_groups": list(spec.groups)}
    port = lab.api.create("port", network_id=spec.network["id"], name=spec.name, **groups, **spec.values)
    lab.define_vm(spec.name, port=port["id"], host=spec.host, hybrid=spec.hybrid, dhcp=False)
    return Guest(lab, spec.name, port["id"], port["mac_address"], _addresses(port))


def _addresses(port: Object) -> dict[int, str]:
    """The first of each version."""
    found: dict[int, str] = {}
    for fixed in port["fixed_ips"]:
        found.setdefault(6 if ":" in fixed["ip_address"] else 4, fixed["ip_address"])
    return found


# --- ping -------------------------------------------------------------------------------------------------------------


def pings(source: Guest, address: str, *options: str, count: int = 2) -> bool:
    """Whether one of some pings is answered."""
    argv = ["ping", "-n", "-q", "-c", str(count), "-i", "0.05", "-W", str(LOST_AFTER), *options, address]
    return source.lab.run(source.name, argv, check=False).returncode == 0


def reaches(source: Guest, address: str, *options: str) -> bool:
    """Whether a ping is answered: for assertions that it is, which end with the first answer."""
    argv = ["ping", "-n", "-q", "-c", "1", "-i", "0.5", "-w", str(round(PATIENCE)), *options, address]
    return source.lab.run(source.name, argv, check=False).returncode == 0


def can_ping(source: Guest, target: Guest, version: int = 4) -> bool:
    return pings(source, target.addresses[version], count=1)


def wait_until_reachable(source: Guest, target: Guest, version: int = 4, timeout: float = SOON) -> float:
    return wait_until(
        lambda: can_ping(source, target, version),
        timeout,
        f"{source.name} does not reach {target.name} by IPv{version}",
    )


# --- TCP --------------------------------------------------------------------------------------------------------------


class Conversation:
    """A TCP connection with both ends in this process: data sent at one end must arrive at the other."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()
        self.server.close()

    def asks(self, timeout: float = LOST_AFTER) -> bool:
        """Whether data from the client arrives at the server."""
        return _receiving([(self.client, self.server)], timeout)[0]

    def answers(self, timeout: float = LOST_AFTER) -> bool:
        """Whether data from the server arrives at the client."""
        return _receiving([(self.server, self.client)], timeout)[0]

    def talks(self, timeout: float = PATIENCE) -> bool:
        return self.asks(timeout) and self.answers(timeout)

    def carries(self, amount: int = 200_000, timeout: float = SOON) -> bool:
        """Whether this many bytes arrive unchanged, which needs full-size segments."""
        sent, got = secrets.token_bytes(amount), b""
        self.client.settimeout(timeout)
        self.server.settimeout(timeout)
        for start in range(0, amount, 20_000):  # less than the socket buffers hold: sending does not block
            part = sent[start : start + 20_000]
            self.client.sendall(part)
            while len(got) < start + len(part):
                got += self.server.recv(65536)
        return got == sent


def _receiving(pairs: Sequence[tuple[socket.socket, socket.socket]], timeout: float) -> list[bool]:
    """The listeners of (sender, listener) pairs that receive data sent now, on all pairs at once."""
    give_up = time.monotonic() + timeout
    payloads = [_send_unique(sender) for sender, _ in pairs]
    return [_receives(listener, payload, give_up) for (_, listener), payload in zip(pairs, payloads, strict=True)]


def _send_unique(sender: socket.socket) -> bytes:
    """A unique payload each time: earlier lost data may still be retransmitted."""
    payload = secrets.token_bytes(8)
    with contextlib.suppress(OSError):
        sender.setblocking(False)
        sender.send(payload)
    return payload


def _receives(listener: socket.socket, payload: bytes, give_up: float) -> bool:
    received = b""
    try:
        while payload not in received:
            listener.settimeout(max(give_up - time.monotonic(), 0.001))
            part = listener.recv(4096)
            if not part:
                return False
            received += part
    except OSError:
        return False
    return True


def _listening(server: Guest, number: int, version: int) -> socket.socket:
    listener = server.socket(_FAMILY[version], socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if version == 6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind(("", number))
    listener.listen(16)
    return listener


def converse(
    client: Guest, server: Guest, number: int = 80, version: int = 4, timeout: float = PATIENCE
) -> Conversation:
    """A TCP connection between two VMs, or an OSError."""
    with _listening(server, number, version) as listener:
        calling = client.socket(_FAMILY[version], socket.SOCK_STREAM)
        try:
            calling.settimeout(timeout)
            calling.connect((server.addresses[version], number))
            listener.settimeout(timeout)
            return Conversation(calling, listener.accept()[0])
        except BaseException:
            calling.close()
            raise


def connections(stack: contextlib.ExitStack, tries: Sequence[Attempt]) -> list[Conversation]:
    """All of the connections, established and used once."""
    made = [stack.enter_context(converse(each.client, each.server, each.number, each.version)) for each in tries]
    assert all(connection.talks() for connection in made)
    return made


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A TCP connection to try."""

    client: Guest
    server: Guest
    number: int = 80
    version: int = 4

    def __str__(self) -> str:
        return f"{self.client.name} to {self.server.name} port {self.number} by IPv{self.version}"


def attempts(clients: Guest | Sequence[Guest], servers: Sequence[Guest], *numbers: int) -> list[Attempt]:
    """From each to each, by both versions; port 80 if none is named."""
    callers = [clients] if isinstance(clients, Guest) else clients
    return [
        Attempt(client, server, number, version)
        for client in callers
        for server in servers
        for number in numbers or (80,)
        for version in VERSIONS
    ]


def connecting(tries: Sequence[Attempt], timeout: float = LOST_AFTER) -> set[Attempt]:
    """The connections that succeed. All are tried at once, so that timeouts do not add up."""
    through: set[Attempt] = set()
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as waiting:
        for server, number, version in {(each.server, each.number, each.version) for each in tries}:
            stack.enter_context(_listening(server, number, version))
        for each in tries:
            calling = stack.enter_context(each.client.socket(_FAMILY[each.version], socket.SOCK_STREAM))
            calling.setblocking(False)
            calling.connect_ex((each.server.addresses[each.version], each.number))
            waiting.register(calling, selectors.EVENT_WRITE, each)
        give_up = time.monotonic() + timeout
        while waiting.get_map() and (left := give_up - time.monotonic()) > 0:
            for key, _ in waiting.select(left):
                waiting.unregister(key.fileobj)
                if key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:  # type: ignore[union-attr]
                    through.add(key.data)
    return through


def expect(some: Sequence[Attempt], none: Sequence[Attempt] = (), timeout: float = SOON) -> None:
    """Wait until all connections in `some` succeed and none of those in `none` does."""
    tries, wanted = [*some, *none], set(some)
    deadline = Deadline(scaled(timeout))
    while (found := connecting(tries)) != wanted:
        if deadline.has_passed():
            lost = "; ".join(f"{each} does not connect" for each in some if each not in found)
            extra = "; ".join(f"{each} connects" for each in none if each in found)
            raise AssertionError("; ".join(filter(None, (lost, extra))))


def wait_to_fall_silent(*connections: Conversation, timeout: float = SOON) -> float:
    """Wait until no data arrives in either direction."""

    pairs = [(connection.client, connection.server) for connection in connections]
    pairs += [(listener, sender) for sender, listener in pairs]

    def silent() -> bool:
        return not any(_receiving(pairs, LOST_AFTER))

    return wait_until(silent, timeout, "a connection that must break still works")


# --- the switches -----------------------------------------------------------------------------------------------------


def ofport(lab: Lab, host: str, port_id: str) -> str:
    """The ofport of a plugged port, or none."""
    wanted = f"external_ids:iface-id={port_id}"
    return lab.run(host, ["ovs-vsctl", "--bare", "--columns=ofport", "find", "Interface", wanted]).stdout.strip()


def taken_from(guest: Guest) -> int:
    """The number of packets that the switch of its host received from a VM."""
    number = ofport(guest.lab, guest.host, guest.port_id)
    output = guest.lab.run(guest.host, ["ovs-ofctl", "-O", "OpenFlow14", "dump-ports", "br-int", number]).stdout
    return int(re.findall(r"rx pkts=(\d+)", output)[0])


def flows(lab: Lab, host: str, bridge: str = "br-int") -> str:
    """A bridge's flows as text, without counters."""
    return lab.run(host, ["ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", bridge]).stdout
