"""Logs of hybrid ports: the rules that copy packets, netfilter's messages, and the lines that become of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from neutrino.agent.l2.desired import Desired
from neutrino.agent.l2.hybrid.firewall import HybridFirewall
from neutrino.agent.l2.hybrid.render import FALLBACK, LOG_CHAINS, port_chain
from neutrino.agent.l2.logged_packets import LoggedPorts
from neutrino.agent.l2.packet_logger import PacketLogger
from neutrino.agent.network_log import NETWORK_LOG
from neutrino.agent.runtime.switch import SwitchStarts
from neutrino.dataplane.protocols.nflog import LoggedPacket, configuration, parse
from neutrino.model.packet_log import PacketLog
from tests.fakes.conntrack import FakeKernelConntrack
from tests.fakes.iptables import FakeIptables
from tests.support.l2 import Cloud, group, network, port, rule
from tests.unit.test_logged_packets import ScriptedPackets, udp

HERE = {"project_id": "project", "target_id": "p1", "network_id": "net"}


def desired(*logs: PacketLog) -> Desired:
    """Hybrid ports p1 and p2 of `web`, which allows UDP port 80; p3 is native."""
    cloud = Cloud("h1")
    web = group("web", rule(protocol=17, port_min=80, port_max=80))
    ports = [
        port(name, number, groups=["web"], hybrid_plug=name != "p3")
        for number, name in enumerate(("p1", "p2", "p3"), 1)
    ]
    cloud.apply(network("net"), web, *ports, *logs)
    found = cloud.hosts["h1"].desired
    assert found is not None
    return found


def log(event: str = "ALL") -> PacketLog:
    return PacketLog(id="l", name="log", event=event, **HERE)  # type: ignore[arg-type]


class Host:
    def __init__(self) -> None:
        self.iptables = FakeIptables()
        self.firewall = HybridFirewall(self.iptables, FakeKernelConntrack())

    def apply(self, state: Desired) -> None:
        assert self.firewall.reconcile(state, complete=True) is None
        assert not self.firewall.plan(state)

    def jumps(self, chain: str, family: int = 4) -> list[tuple[str, str]]:
        """Matches and targets of a chain that copy packets, and the last rule."""
        rules = self.iptables.read_rules(family)["filter"].get(chain, ())
        return [
            (rule.text.partition("-m comment")[0].strip(), rule.target)
            for number, rule in enumerate(rules)
            if rule.target in (*LOG_CHAINS.values(), "NFLOG") or number == len(rules) - 1
        ]


@pytest.mark.parametrize("event", ["ACCEPT", "DROP"])
def test_packets_of_a_logged_port_are_copied(event: str) -> None:
    host = Host()
    host.apply(desired(log(event)))
    accepted, dropped = LOG_CHAINS["ACCEPT"], LOG_CHAINS["DROP"]
    own = {
        "ACCEPT": [("-p 17 -m udp --dport 80 -m conntrack --ctstate NEW", accepted)],
        "DROP": [
            ("-m conntrack --ctstate INVALID", dropped),
            ("-m conntrack --ctdir REPLY -m connmark --mark 0x1", dropped),
            ("", dropped),
        ],
    }
    assert host.jumps(port_chain("i", "p1")) == [*own[event], ("", FALLBACK)]
    assert host.jumps(port_chain("i", "p2")) == [("", FALLBACK)]
    assert (("", dropped) in host.jumps(port_chain("s", "p1"), 6)) is (event == "DROP")
    assert host.jumps(accepted) == [("-m limit --limit 100/second --limit-burst 25", "NFLOG")]
    host.apply(desired())
    assert "NFLOG" not in {rule.target for rules in host.iptables.read_rules(4)["filter"].values() for rule in rules}


def test_a_native_port_is_not_logged_here() -> None:
    host = Host()
    host.apply(desired(PacketLog(id="l", project_id="project", target_id="p3", network_id="net")))
    assert host.jumps(LOG_CHAINS["DROP"]) == []


def test_a_kernel_that_cannot_log_filters_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    host = Host()
    host.iptables.can_log = False
    host.apply(desired(log()))
    assert host.jumps(port_chain("i", "p1")) == [("", FALLBACK)]
    assert "packets of hybrid ports are not logged" in caplog.text
    host.apply(desired(log(), PacketLog(id="m", project_id="project", target_id="p2", network_id="net")))


# --- netfilter's messages ---------------------------------------------------------------------------------------------


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value.ljust((len(value) + 3) & ~3, b"\0")


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def packet(event: str, device_in: int, device_out: int, data: bytes) -> bytes:
    parts = (attribute(10, event.encode() + b"\0"), attribute(6, device_in.to_bytes(4, "big")))
    parts += (attribute(7, device_out.to_bytes(4, "big")), attribute(16, data[:14]), attribute(9, data[14:]))
    return message(0x400, struct.pack("!BBH", 2, 0, 7) + b"".join(parts))


ACKNOWLEDGED = message(2, struct.pack("=i", 0))


def test_messages_of_the_kernel() -> None:
    several = ACKNOWLEDGED + packet("DROP", 7, 8, udp(81)) + packet("ACCEPT", 8, 0, udp(80))
    assert [*parse(several)] == [LoggedPacket("DROP", 7, 8, udp(81)), LoggedPacket("ACCEPT", 8, 0, udp(80))]
    with pytest.raises(PermissionError):
        [*parse(message(2, struct.pack("=i", -1)))]


@pytest.mark.parametrize(("first", "kind"), [(b"\x45", b"\x08\x00"), (b"\x60", b"\x86\xdd")])
def test_a_packet_without_a_link_layer_header_becomes_a_frame(first: bytes, kind: bytes) -> None:
    body = struct.pack("!BBH", 2, 0, 7) + attribute(10, b"DROP\0") + attribute(9, first + bytes(39))
    (found,) = parse(message(0x400, body))
    assert found.data == bytes(12) + kind + first + bytes(39)


@pytest.mark.parametrize("cut", range(0, 140, 3))
def test_a_message_that_is_cut_off_is_no_error(cut: int) -> None:
    assert len([*parse(packet("DROP", 7, 8, udp(81))[:cut])]) <= 1


def test_the_group_is_asked_for() -> None:
    text = configuration(0x6E6C, 128)
    kinds, start = [], 0
    while start < len(text):
        length, kind = struct.unpack_from("=IH", text, start)
        assert struct.unpack_from("!BBH", text, start + 16) == (socket.AF_UNSPEC, 0, 0x6E6C)
        kinds.append((kind, struct.unpack_from("=H", text, start + 22)[0]))
        start += length
    assert kinds == [(0x401, 1), (0x401, 2), (0x401, 4)]


# --- lines ------------------------------------------------------------------------------------------------------------


def test_a_packet_is_found_by_the_device_of_its_bridge() -> None:
    ports = LoggedPorts(desired(log("DROP")))
    (line,) = ports.bridged_lines("DROP", "qvbp1", "tapp1", udp(81))
    assert line.startswith("action=DROP project_id=project log_resource_ids=['l'] vm_port=p1")
    assert " direction=ingress " in line
    (line,) = ports.bridged_lines("DROP", "tapp1", "qvbp1", udp(81))
    assert " direction=egress " in line
    assert [*ports.bridged_lines("ACCEPT", "qvbp1", "tapp1", udp(80))] == []
    assert [*ports.bridged_lines("DROP", "qvbp2", "tapp2", udp(81))] == []
    assert [*ports.bridged_lines("DROP", "", "", udp(81))] == []


class Netfilter:
    """A log that is refused twice, then has a packet."""

    def __init__(self) -> None:
        self.opened = 0

    async def read(self) -> AsyncIterator[LoggedPacket]:
        self.opened += 1
        if self.opened < 3:
            raise OSError("refused")
        yield LoggedPacket("DROP", 0, socket.if_nametoindex("lo"), udp(81))
        await asyncio.Event().wait()


def test_netfilters_log_is_read_from_the_first_hybrid_port_with_a_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("neutrino.agent.l2.packet_logger.RETRY_SECONDS", 0.0)
    monkeypatch.setattr("neutrino.agent.l2.packet_logger.socket.if_indextoname", lambda index: "tapp1")
    caplog.set_level(logging.INFO, NETWORK_LOG)
    state, log_ = desired(log()), Netfilter()

    async def run() -> None:
        logger = PacketLogger(ScriptedPackets([]), bridged=log_)  # type: ignore[arg-type]
        task = asyncio.create_task(logger.run("br-int", lambda: state, SwitchStarts().more_than))
        logger.applied(desired())
        for _ in range(20):
            await asyncio.sleep(0)
        assert log_.opened == 0
        logger.applied(state)
        async with asyncio.timeout(10):
            while "action=DROP" not in caplog.text:
                await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert log_.opened == 3
    assert caplog.text.count("packets of hybrid ports are not logged: refused") == 1
