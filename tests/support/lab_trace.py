"""Traces in a lab, compared with the fate of real packets.

A situation says who sends what to whom, and what a trace must say of it. It is tried like this: the change of the situation
is made, real packets must have the fate that it expects, the same packet is traced, and verdict, cause and the object that
is named are compared. Afterwards real packets must have the same fate still.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from neutrino.cli.trace.command import exit_status
from neutrino.cli.trace.render import render
from neutrino.lab.errors import LabError
from neutrino.lab.timing import Deadline
from neutrino.model.objects import Object
from neutrino.model.trace import Cause
from tests.support.lab_control import Lab
from tests.support.lab_guests import Guest
from tests.support.routing_lab import EXTERNAL

SOON = 30.0  # seconds within which a change takes effect, on a busy machine
LOST_AFTER = 0.4
HEADERS = {4: 28, 6: 48}  # bytes of IP and ICMP
DELIVERED, DROPPED, UNKNOWN = "delivered", "dropped", "unknown"
OUTSIDE = "outside"  # as sender: the machine on the external network


class Place(Protocol):
    """Where situations take place: instances and addresses, by name."""

    lab: Lab

    def port(self, name: str) -> str:
        """The port of an instance; empty: the name is of an address alone."""
        ...

    def address(self, name: str, version: int = 4) -> str: ...

    def vm(self, name: str) -> str:
        """The instance that has the port."""
        ...

    def object(self, name: str) -> str:
        """The id of another object, such as a router."""
        ...


P = TypeVar("P", bound=Place)


def _no_change(place: Place) -> AbstractContextManager[Any]:
    return contextlib.nullcontext()


@dataclasses.dataclass(frozen=True)
class Packet:
    """A packet and its reply. `at`: the port that the receiver listens at, if that is translated."""

    protocol: str = "icmp"
    port: int = 0
    version: int = 4
    size: int = 0
    at: int = 0
    server: str = ""  # the instance that gets it, if another one than the receiver's
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)  # of the request, besides

    @property
    def words(self) -> str:
        """The packet as a column of a table."""
        name = {"icmp": "ping", "tcp": "TCP", "udp": "UDP"}[self.protocol] + (f" {self.port}" if self.port else "")
        known = {"source_address": "from {}", "source_mac": "from {}", "source_port": "from port {}"}
        parts = [name, *(["IPv6"] if self.version == 6 else []), *([f"{self.size} bytes"] if self.size else [])]
        parts += [known.get(key, f"{key} {{}}").format(value) for key, value in self.values.items()]
        return ", ".join(parts)


PING, PING6 = Packet(), Packet(version=6)


def tcp(port: int = 80, **more: Any) -> Packet:
    return Packet("tcp", port, **more)


def udp(port: int, **more: Any) -> Packet:
    return Packet("udp", port, **more)


@dataclasses.dataclass(frozen=True)
class Situation(Generic[P]):
    name: str
    source: str
    to: str
    packet: Packet = PING
    cause: str = ""  # why the packet does not arrive, or why that is not known
    verdict: str = ""  # dropped, if there is a cause
    reply_cause: str = ""
    reply: str | None = ""  # its verdict; empty: delivered, or dropped if it has a cause; None: none is traced
    arrives: bool | None = None  # packets arrive and are answered; None: as the verdicts say
    names: str = ""  # the object that the step names which drops the packet: a port, or another object
    agrees: bool = True  # the server's data and the dataplane have the same answer
    change: Callable[[P], AbstractContextManager[Any]] = _no_change
    real: Callable[[P], bool] | None = None  # how packets are sent, if not by `send`
    target: str = ""  # the address that is traced and sent to, if not that of `to`'s port: by name

    @property
    def changes(self) -> bool:
        return self.change is not _no_change

    @property
    def wanted(self) -> str:
        return self.verdict or (DROPPED if self.cause else DELIVERED)

    @property
    def wanted_reply(self) -> str | None:
        """None: there is none, as the packet is dropped or a router answers itself."""
        if self.wanted == DROPPED or self.reply is None:
            return None
        return self.reply or (DROPPED if self.reply_cause else DELIVERED)

    @property
    def arriving(self) -> bool:
        if self.arrives is not None:
            return self.arrives
        return self.wanted != DROPPED and self.wanted_reply != DROPPED

    def request(self, place: P) -> dict[str, Any]:
        known = {"tcp": "tcp", "udp": "udp", "icmp": "icmp" if self.packet.version == 4 else "ipv6-icmp"}
        values: dict[str, Any] = {"protocol": known[self.packet.protocol], **self.packet.values}
        if "source_address" in values:
            values["source_address"] = place.address(values["source_address"])
        values |= {"destination_port": self.packet.port} if self.packet.port else {}
        values |= {"packet_size": self.packet.size} if self.packet.size else {}
        values |= {"source": "external"} if self.source == OUTSIDE else {"source_port_id": place.port(self.source)}
        if not self.target and self.source != OUTSIDE and (port := place.port(self.to)):
            return {**values, "destination_port_id": port, "ip_version": self.packet.version}
        return {**values, "destination_address": place.address(self.target or self.to, self.packet.version)}

    def send(self, place: P) -> bool:
        """Whether real packets arrive and are answered."""
        if self.real is not None:
            return self.real(place)
        packet, sender = self.packet, EXTERNAL if self.source == OUTSIDE else place.vm(self.source)
        target = place.address(self.target or self.to, packet.version)
        if packet.protocol == "icmp":
            size = ("-M", "do", "-s", str(packet.size - HEADERS[packet.version])) if packet.size else ()
            return pings(place.lab, sender, target, *size)
        server = place.vm(packet.server or self.to)
        if packet.protocol == "tcp":
            return connects(place.lab, sender, server, target, packet.port, packet.at or None)
        return datagrams(place.lab, sender, server, target, packet.port)


def check(situation: Situation[P], place: P) -> Object:
    """The trace of a situation, after it was compared."""
    with situation.change(place):
        wanted = situation.arriving
        arrived = _wait_for(lambda: situation.send(place), wanted)
        assert arrived == wanted, f"a real packet {'arrives' if arrived else 'does not arrive'}"
        deadline = Deadline(SOON)
        attempts = 0
        while True:
            attempts += 1
            found = trace_once(place.lab, **situation.request(place))
            fault = fault_of(situation, place, found)
            if not fault:
                # Again: the packet may have arrived before the change took effect.
                assert _wait_for(lambda: situation.send(place), wanted) == wanted, "real packets have another fate now"
                return found
            # A trace of a busy lab may take all of the time.
            if attempts > 1 and deadline.has_passed():
                raise AssertionError(f"{fault}\n{render(found, flows=True)}\n{found}")


def trace(lab: Lab, **values: Any) -> Object:
    """A trace to which all hosts have answered: on a busy machine, an answer may be late."""
    deadline = Deadline(SOON)
    while True:
        made = trace_once(lab, **values)
        if Cause.HOST_TIMEOUT.value not in (made["cause"], made["return_cause"]) or deadline.has_passed():
            return made


def trace_once(lab: Lab, **values: Any) -> Object:
    made: Object = lab.api.request("POST", "/v2.0/traces", {"trace": {"flows": True, **values}})["trace"]
    return made


def check_arrives(lab: Lab, **values: Any) -> Object:
    """Trace a packet of which real ones arrive and are answered: the server's data and the hosts must say the same."""
    made = trace(lab, **values)
    found = made["verdict"], made["return_verdict"], made["agreement"]
    assert found == ("delivered", "delivered", True), f"{render(made, flows=True)}\n{made}"
    return made


def _wait_for(look: Callable[[], bool], wanted: bool) -> bool:
    deadline = Deadline(SOON)
    while (found := look()) != wanted and not deadline.has_passed():
        time.sleep(0.05)
    return found


def fault_of(situation: Situation[P], place: P, found: Object) -> str:
    """What is wrong with a trace; empty if it is as the situation expects."""
    verdicts = (found["verdict"], found["cause"] or ""), (found["return_verdict"], found["return_cause"] or "")
    wanted = (situation.wanted, situation.cause), (situation.wanted_reply, situation.reply_cause)
    if verdicts != wanted:
        return f"verdicts {verdicts}, expected {wanted}"
    statuses = {DELIVERED: 0, None: 0, DROPPED: 1, UNKNOWN: 3}
    both = {statuses[situation.wanted], statuses[situation.wanted_reply]}
    if exit_status(found) != (1 if 1 in both else max(both)):
        return f"exit status {exit_status(found)}"
    if situation.names:
        steps = found["return_steps" if situation.reply_cause else "steps"]
        named = [step["resource_id"] for step in steps if step["result"] == "drop" or situation.wanted == UNKNOWN]
        key = place.port(situation.names) or place.object(situation.names)
        if key not in named:
            return f"{situation.names} ({key}) is not named by what drops the packet: {named}"
    asked = any(host["answered"] for host in found["hosts"].values())
    if found["agreement"] is not (situation.agrees if asked else None):
        return f"agreement is {found['agreement']}: {found['differences']}"
    return ""


# --- real packets -----------------------------------------------------------------------------------------------------


def pings(lab: Lab, source: str, target: str, *options: str) -> bool:
    argv = ["ping", "-n", "-q", "-c", "1", "-W", str(LOST_AFTER), *options, target]
    return lab.run(source, argv, check=False).returncode == 0


def connects(lab: Lab, client: str, server: str, target: str, port: int = 80, at: int | None = None) -> bool:
    """Whether a TCP connection to `target` reaches `server`, there at port `at` (else the same)."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET

    def listen() -> socket.socket:
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", at or port))
        listener.listen()
        return listener

    with lab.inside(server, listen) as listener:
        listener.settimeout(LOST_AFTER)
        try:
            with lab.inside(client, lambda: socket.create_connection((target, port), LOST_AFTER)):
                listener.accept()[0].close()
        except OSError:
            return False
    return True


def datagrams(lab: Lab, client: str, server: str, target: str, port: int, source_port: int = 0) -> bool:
    """Whether a datagram and its reply arrive."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET

    def bound(number: int) -> socket.socket:
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("", number))
        made.settimeout(LOST_AFTER)
        return made

    with lab.inside(server, lambda: bound(port)) as there, lab.inside(client, lambda: bound(source_port)) as here:
        try:
            here.sendto(b"question", (target, port))
            _, peer = there.recvfrom(100)
            there.sendto(b"answer", peer)
            here.recvfrom(100)
        except OSError:
            return False
    return True


# --- changes that are undone --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def updated(lab: Lab, kind: str, key: str, **values: Any) -> Iterator[None]:
    before = lab.api.show(kind, key)
    lab.api.update(kind, key, **values)
    try:
        yield
    finally:
        lab.api.update(kind, key, **{name: before[name] for name in values})


@contextlib.contextmanager
def in_groups(guest: Guest, *groups: str) -> Iterator[None]:
    with updated(guest.lab, "port", guest.port_id, security_groups=list(groups)):
        yield


@contextlib.contextmanager
def created(lab: Lab, path: str, kind: str, **values: Any) -> Iterator[Object]:
    """An object of a collection with a path of its own, such as fwaas/firewall_groups."""
    made: Object = lab.api.request("POST", f"/v2.0/{path}", {kind: values})[kind]
    try:
        yield made
    finally:
        with contextlib.suppress(LabError):
            lab.api.request("DELETE", f"/v2.0/{path}/{made['id']}")
