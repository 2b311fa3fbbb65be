"""From a packet-in to lines of the network log."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from neutrino.agent import packet_lines
from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired
from neutrino.agent.l2.extension_api import cookie_of
from neutrino.agent.l2.logged_packets import LoggedPorts
from neutrino.agent.l2.packet_logger import PacketLogger
from neutrino.agent.network_log import NETWORK_LOG, network_log
from neutrino.agent.packet_lines import decode
from neutrino.agent.runtime.switch import SwitchStarts
from neutrino.dataplane.protocols.packet_in import PacketIn, RejectedMessage, parse
from neutrino.model.packet_log import PacketLog
from tests.support.l2 import Cloud, group, mac, network, port, rule

ACCEPTED_OUT, ACCEPTED_IN, DROPPED = (
    table.number for table in (pipeline.ACCEPT_OR_INGRESS, pipeline.ACCEPTED_INGRESS, pipeline.DROPPED)
)
# As Open vSwitch 3.1 sends it: an ICMPv6 packet that entered at port 1, of a flow in table 0.
MESSAGE = (
    "000023200000001e0000004a333300000002ea55ea8b605b86dd6000000000103afffe80000000000000e855eafffe8b605bff02000000000000"
    "0000000000000002850014b4000000000101ea55ea8b605b000000000000000300050000000000040010000000006e74726e00000001"
    "000500050100000000060014800000040000000100010a0400000005000000000007000601020000"
)


def frame(
    protocol: int, rest: bytes, source: str = "10.0.0.2", destination: str = "10.0.0.1", tag: bytes = b""
) -> bytes:
    ends = ip_address(source).packed + ip_address(destination).packed
    macs = bytes.fromhex((mac(1) + mac(2)).replace(":", ""))
    if ":" in source:
        header = b"\x60\0\0\0" + len(rest).to_bytes(2, "big") + bytes((protocol, 64)) + ends
        return macs + tag + b"\x86\xdd" + header + rest
    header = b"\x45\0" + (20 + len(rest)).to_bytes(2, "big") + b"\0\0\0\0\x40" + bytes((protocol,)) + b"\0\0" + ends
    return macs + tag + b"\x08\0" + header + rest


def udp(port_number: int, source_port: int = 40000) -> bytes:
    return frame(17, source_port.to_bytes(2, "big") + port_number.to_bytes(2, "big") + b"\0\x08\0\0")


def desired(*logs: PacketLog) -> Desired:
    """Port p1 is of two groups: `web` allows UDP port 80, `any` UDP port 53 from members of `friends`."""
    cloud = Cloud("h1")
    web = group("web", rule(protocol=17, port_min=80, port_max=80))
    other = group("any", rule("egress"), rule(protocol=17, port_min=53, port_max=53))
    cloud.apply(network("net"), web, other, port("p1", 1, groups=["web", "any"]), *logs)
    found = cloud.hosts["h1"].desired
    assert found is not None
    return found


def lines(state: Desired, table: int, data: bytes, in_port: int = 5, name: str = "p1") -> list[str]:
    return [*LoggedPorts(state).lines(PacketIn(cookie_of(f"port {name}"), table, in_port, data))]


@pytest.mark.parametrize("text", ["p\naction=DROP", "p action=DROP", "p\u2028action=DROP", 'p"'])
def test_no_text_of_a_client_adds_a_line_or_a_field(text: str) -> None:
    log = PacketLog(id="l1", name=text, project_id=text, event="DROP")
    found = [*packet_lines.lines("DROP", "ingress", "vm_port", "p1", [log], decode(udp(81)))]  # type: ignore[arg-type]
    (line,) = found
    assert f"project_id={json.dumps(text)} log_resource_ids=" in line
    assert f"log_names={json.dumps([text])} direction=" in line
    assert len(line.splitlines()) == 1


def test_a_message_of_the_switch() -> None:
    found = parse(bytes.fromhex(MESSAGE))
    assert found is not None
    assert (found.cookie, found.table, found.in_port) == (0x6E74726E00000001, 0, 1)
    decoded = decode(found.data)
    assert decoded is not None
    assert decoded.packet is not None
    assert (decoded.packet.source, decoded.packet.destination_port) == ("fe80::e855:eaff:fe8b:605b", 133)


@pytest.mark.parametrize("cut", range(0, len(MESSAGE) // 2, 7))
def test_a_message_that_is_cut_off_is_no_error(cut: int) -> None:
    found = parse(bytes.fromhex(MESSAGE)[:cut])
    assert found is None or decode(found.data) is None or found.cookie


def test_other_messages_are_not_packets() -> None:
    assert parse(b"") is None
    assert parse(bytes.fromhex("000023200000001c")) is None


@pytest.mark.parametrize("length", range(60))
def test_a_frame_of_any_length_is_decoded(length: int) -> None:
    whole = decode(udp(80)[:length])
    assert (whole is None) == (length < 14)


def test_a_line_has_the_ids_and_the_headers() -> None:
    name = 'a "b"\nc'  # one line nevertheless
    state = desired(PacketLog(id="l", name=name, project_id="project", target_id="p1", network_id="net"))
    assert lines(state, ACCEPTED_IN, udp(80)) == [
        "action=ACCEPT project_id=project log_resource_ids=['l'] vm_port=p1 "
        f"log_names={json.dumps([name])} direction=ingress eth_src={mac(2)} eth_dst={mac(1)} "
        "protocol=udp src=10.0.0.2 dst=10.0.0.1 src_port=40000 dst_port=80 length=28"
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (frame(1, b"\x08\0"), "protocol=icmp src=10.0.0.2 dst=10.0.0.1 icmp_type=8 icmp_code=0 length=22"),
        (frame(47, b""), "protocol=47 src=10.0.0.2 dst=10.0.0.1 length=20"),
        (
            frame(6, b"\0\x50\0\x51", "2001:db8::2", "2001:db8::1"),
            "protocol=tcp src=2001:db8::2 dst=2001:db8::1 src_port=80 dst_port=81 length=44",
        ),
        (frame(47, b"", tag=b"\x81\0\0\x05"), "protocol=47 src=10.0.0.2 dst=10.0.0.1 length=20"),
        (udp(80)[:12] + b"\x88\xcc" + b"\0" * 20, "eth_type=0x88cc"),
    ],
)
def test_headers(data: bytes, words: str) -> None:
    state = desired(PacketLog(id="l", target_id="p1", network_id="net"))
    (line,) = lines(state, DROPPED, data)
    assert line.endswith(words)


def test_the_direction_of_a_dropped_packet() -> None:
    state = desired(PacketLog(id="l", target_id="p1", network_id="net"))
    ofport = state.ports[0].ofport
    assert "direction=egress" in lines(state, DROPPED, udp(80), in_port=ofport)[0]
    assert "direction=ingress" in lines(state, DROPPED, udp(80))[0]
    assert "direction=egress" in lines(state, ACCEPTED_OUT, udp(80), in_port=ofport)[0]


def test_an_accepted_packet_is_for_the_groups_that_allow_it() -> None:
    state = desired(PacketLog(id="1", resource_id="web"), PacketLog(id="2", resource_id="any"))
    assert "['1']" in lines(state, ACCEPTED_IN, udp(80))[0]
    assert "['2']" in lines(state, ACCEPTED_IN, udp(53))[0]
    assert "['1', '2']" in lines(state, DROPPED, udp(99))[0]
    assert lines(state, ACCEPTED_IN, udp(99)) == []


def test_a_line_for_each_project_and_only_the_events_of_a_log() -> None:
    state = desired(
        PacketLog(id="1", project_id="a", resource_id="web"),
        PacketLog(id="2", project_id="b", resource_id="web"),
        PacketLog(id="3", project_id="a", resource_id="web", event="DROP"),
    )
    accepted = lines(state, ACCEPTED_IN, udp(80))
    assert [line.split()[1:3] for line in accepted] == [
        ["project_id=a", "log_resource_ids=['1']"],
        ["project_id=b", "log_resource_ids=['2']"],
    ]
    assert "['1', '3']" in lines(state, DROPPED, udp(99))[0]


def test_a_packet_of_an_unknown_port_or_table_is_not_logged() -> None:
    state = desired(PacketLog(id="l", resource_id="web"))
    assert lines(state, DROPPED, udp(80), name="p9") == []
    assert lines(state, 3, udp(80)) == []
    assert lines(state, DROPPED, b"") == []


def test_the_file_of_the_log_is_written_and_follows_a_rotation(tmp_path: Path) -> None:
    file = tmp_path / "network.log"
    output = network_log(str(file))
    try:
        output.info("first")
        file.rename(tmp_path / "old")
        output.info("second")
        assert file.read_text().endswith(" second\n")
        assert oct((tmp_path / "old").stat().st_mode & 0o777) == "0o640"
    finally:
        logger = logging.getLogger(NETWORK_LOG)
        logger.propagate = True
        for handler in [*logger.handlers]:
            logger.removeHandler(handler)
            handler.close()


def test_a_file_that_cannot_be_written_is_named_in_the_agents_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output = network_log(str(tmp_path / "missing" / "network.log"))
    output.info("a packet")
    assert "local_output_log_base" in caplog.messages[0]
    assert caplog.messages[1] == "a packet"


@dataclasses.dataclass
class ScriptedPackets:
    """Connections to the switch, each of which ends with an error; the last one lasts."""

    ends: list[Exception]
    connected: int = 0

    @contextlib.asynccontextmanager
    async def connect(self, bridge: str) -> AsyncIterator[ScriptedPackets]:
        yield self

    async def read(self) -> AsyncIterator[PacketIn]:
        self.connected += 1
        if not self.ends:
            await asyncio.Event().wait()
        raise self.ends.pop(0)
        yield  # a generator


def test_the_connection_is_made_again_when_the_switch_is_found_again() -> None:
    async def run() -> None:
        starts = SwitchStarts()
        closed = asyncio.IncompleteReadError(b"", 8)
        packets = ScriptedPackets([ConnectionRefusedError(), RejectedMessage("no"), closed, FileNotFoundError()])
        logger = PacketLogger(packets)  # type: ignore[arg-type]
        task = asyncio.create_task(logger.run("br-int", lambda: None, starts.more_than))
        # Refused, rejected, closed and tried at once without success, connected: a start of the switch for each.
        for connected in (0, 1, 2, 4, 5):
            for _ in range(20):
                await asyncio.sleep(0)
            assert packets.connected == connected
            starts.count()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
