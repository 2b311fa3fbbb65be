"""Hybrid ports with real packets: instances in namespaces, each behind a Linux bridge of its own, on one network.

The host is a namespace too, so that its iptables are its own. The network between the ports is a bridge in another one,
where nothing is filtered: it stands for the integration bridge.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address

from neutrino.agent.l2.desired import Desired
from neutrino.agent.l2.hybrid.firewall import HybridFirewall, HybridPlan
from neutrino.dataplane.conntrack.kernel import KernelConntrack
from neutrino.dataplane.iptables.real import RealIptables
from neutrino.model import state
from tests.support.l2 import Cloud, mac
from tests.support.throwaway_namespace import ThrowawayNamespace

ARRIVES, NEVER = 3.0, 0.15  # how long to wait for a packet that should come, and for one that should not
_IPV4 = 0x0800
_ECHO = {4: (8, 0), 6: (128, 129)}


class Instance:
    """A machine with a port; `number` gives its addresses as in `tests.support.l2.port`."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.namespace = ThrowawayNamespace()

    def address(self, family: int = 4) -> str:
        return f"10.0.0.{self.number}" if family == 4 else f"2001:db8::{self.number:x}"

    def socket(self, kind: int, family: int = 4, port: int = 0, protocol: int = 0) -> socket.socket:
        made = self.namespace.socket(socket.AF_INET if family == 4 else socket.AF_INET6, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((self.address(family), port))
        return made


class HybridHost:
    """A host with the firewall; `plug` gives an instance its bridge, as os-vif does."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self.namespace = self._stack.enter_context(ThrowawayNamespace())
        self.network = self._stack.enter_context(ThrowawayNamespace())
        self.network.run("ip", "link", "add", "net", "type", "bridge")
        self.network.run("ip", "link", "set", "net", "up")
        self.iptables = self.namespace.driver(RealIptables())
        self.conntrack = KernelConntrack("net", self.namespace.names)
        self.firewall = HybridFirewall(self.iptables, self.conntrack)
        self.cloud = Cloud("h1")
        self.instances: dict[int, Instance] = {}

    def close(self) -> None:
        self._stack.close()

    def plug(self, port: state.Port, number: int) -> Instance:
        instance = Instance(number)
        self._stack.enter_context(instance.namespace)
        short, host, inside = port.id[:11], self.namespace, instance.namespace
        host.run("ip", "link", "add", f"qbr{short}", "type", "bridge", "mcast_snooping", "0")
        device = ("ip", "link", "add", f"tap{short}", "type", "veth", "peer", "name", "eth0")
        host.run(*device, "address", mac(number), "netns", str(inside.pid))
        pair = ("ip", "link", "add", f"qvb{short}", "type", "veth", "peer", "name", f"qvo{short}")
        host.run(*pair, "netns", str(self.network.pid))
        for name in (f"tap{short}", f"qvb{short}"):
            host.run("ip", "link", "set", name, "master", f"qbr{short}", "up")
        host.run("ip", "link", "set", f"qbr{short}", "up")
        self.network.run("ip", "link", "set", f"qvo{short}", "master", "net", "up")
        inside.run("sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad")
        inside.run("ip", "link", "set", "eth0", "up")
        for family, length in ((4, 24), (6, 64)):
            inside.run("ip", "addr", "add", f"{instance.address(family)}/{length}", "dev", "eth0", *_no_probe(family))
        self.instances[number] = instance
        return instance

    def resolve(self, *objects: state.Object) -> Desired:
        return self.cloud.hosts["h1"].resolve(self.cloud.state_for("h1", objects))

    def apply(self, *objects: state.Object) -> HybridPlan:
        """The plan that was carried out; after it there is nothing left to do."""
        desired = self.resolve(*objects)
        plan = self.firewall.plan(desired)
        self.firewall.apply(plan)
        again = self.firewall.plan(desired)
        assert not again, again.text()
        self.forgetful(desired)
        return plan

    def forgetful(self, desired: Desired) -> None:
        """Nor is there for an agent that has just been started."""
        plan = HybridFirewall(self.iptables, self.conntrack).plan(desired)
        assert not plan, plan.text()


def _no_probe(family: int) -> tuple[str, ...]:
    return ("nodad",) if family == 6 else ()


# --- packets ---


def arrives(receiver: socket.socket, expected: bytes, *, within: float) -> bool:
    """Whether a datagram or a part of a stream arrives; others are skipped."""
    while select.select([receiver], [], [], within)[0]:
        if expected in receiver.recv(65536):
            return True
    return False


def udp_passes(source: Instance, target: Instance, port: int, family: int = 4, *, expected: bool = True) -> bool:
    with target.socket(socket.SOCK_DGRAM, family, port) as receiver, source.socket(socket.SOCK_DGRAM, family) as sender:
        sender.sendto(b"question", (target.address(family), port))
        return arrives(receiver, b"question", within=ARRIVES if expected else NEVER)


def ping_passes(source: Instance, target: Instance, family: int = 4, *, expected: bool = True) -> bool:
    """An echo request and its reply."""
    protocol = socket.IPPROTO_ICMP if family == 4 else socket.IPPROTO_ICMPV6
    with source.socket(socket.SOCK_RAW, family, 0, protocol) as sender:
        request = struct.pack("!BBHHH", _ECHO[family][0], 0, 0, target.number, 1) + b"echo"
        if family == 4:  # of ICMPv6 the kernel makes the checksum
            request = request[:2] + struct.pack("!H", _checksum(request)) + request[4:]
        sender.sendto(request, (target.address(family), 0))
        reply = bytes([_ECHO[family][1], 0])
        return _echoed(sender, reply, 20 if family == 4 else 0, ARRIVES if expected else NEVER)


def _echoed(receiver: socket.socket, reply: bytes, offset: int, within: float) -> bool:
    while select.select([receiver], [], [], within)[0]:
        received = receiver.recv(65536)[offset:]
        if received.startswith(reply) and received.endswith(b"echo"):
            return True
    return False


@contextlib.contextmanager
def tcp_connection(
    source: Instance, target: Instance, port: int, family: int = 4, *, expected: bool = True
) -> Iterator[tuple[socket.socket, socket.socket] | None]:
    """Both ends of a connection, or None if it cannot be opened."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(target.socket(socket.SOCK_STREAM, family, port))
        listener.listen()
        client = stack.enter_context(source.socket(socket.SOCK_STREAM, family))
        client.settimeout(ARRIVES if expected else NEVER)
        try:
            client.connect((target.address(family), port))
        except TimeoutError:
            yield None
            return
        server, _ = listener.accept()
        stack.enter_context(server)
        yield client, server


def tcp_passes(source: Instance, target: Instance, port: int, family: int = 4, *, expected: bool = True) -> bool:
    with tcp_connection(source, target, port, family, expected=expected) as ends:
        return ends is not None


def passes(sender: socket.socket, receiver: socket.socket, text: bytes, *, expected: bool = True) -> bool:
    sender.sendall(text)
    return arrives(receiver, text, within=ARRIVES if expected else NEVER)


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def send_frame(
    source: Instance, target: Instance, port: int, *, source_mac: str = "", source_ip: str = "", source_port: int = 4000
) -> None:
    """A datagram from any address, also one that is not the sender's."""
    payload = b"question"
    udp = struct.pack("!HHHH", source_port, port, 8 + len(payload), 0) + payload
    ends = IPv4Address(source_ip or source.address()).packed + IPv4Address(target.address()).packed
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + ends
    header = header[:10] + struct.pack("!H", _checksum(header)) + header[12:]
    macs = bytes.fromhex((mac(target.number) + (source_mac or mac(source.number))).replace(":", ""))
    with source.namespace.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind(("eth0", 0))
        raw.send(macs + b"\x08\x00" + header + udp)


def frame_passes(source: Instance, target: Instance, port: int, *, expected: bool = True, **spoofed: str | int) -> bool:
    """Whether a frame arrives at the target's device, with any source."""
    with target.namespace.socket(socket.AF_PACKET, socket.SOCK_RAW) as receiver:
        receiver.bind(("eth0", _IPV4))
        send_frame(source, target, port, **spoofed)  # type: ignore[arg-type]
        return arrives(receiver, b"question", within=ARRIVES if expected else NEVER)
