"""Logs of firewall groups on router ports: rules, sockets in namespaces, lines."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec import structs

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.firewall_log import ACCEPTED, DROPPED, LIMIT, LoggedPort, LoggedPorts, lines_of, logged_ports
from neutrino.agent.l3.router import logged_namespaces, router_namespaces
from neutrino.agent.l3.services.api import Serving
from neutrino.agent.l3.services.firewall_log import FirewallLogs, NamespaceLogs
from neutrino.agent.network_log import NETWORK_LOG
from neutrino.agent.runtime.bucket import Bucket
from neutrino.dataplane.protocols.nflog import LoggedPacket
from neutrino.model.firewall import FirewallGroup, FirewallLog
from neutrino.model.routing import Router
from tests.support.filtered_router import filtered
from tests.support.firewall import TCP, UDP, group, rule
from tests.support.routing import GATEWAY, find_rendered, router, table
from tests.unit.test_logged_packets import udp

OPTIONS = L3Options(host="h1", veth=True, log_rate=200, log_burst=30)
QR1, QR2, SG = "qr-00000001-aa", "qr-00000002-aa", "sg-00000005-aa"
RULES = (rule(protocol=TCP), rule("deny", UDP), rule("reject"))


def log(event: str = "ALL", **values: str) -> FirewallLog:
    return FirewallLog(**{"id": "l", "name": "n", "project_id": "p", "event": event, **values})  # type: ignore[arg-type]


def chains(wanted: Router, *groups: FirewallGroup, options: L3Options = OPTIONS) -> dict[str, tuple[str, ...]]:
    made = find_rendered(wanted, options, groups=groups)
    found = table(made, "inet") if made is not None else None
    return {each.name: each.rules for each in found.chains} if found is not None else {}


def declared(wanted: Router, *groups: FirewallGroup) -> str:
    made = find_rendered(wanted, OPTIONS, groups=groups)
    found = table(made, "inet") if made is not None else None
    return " ".join(found.declarations) if found is not None else ""


def test_without_logs_nothing_is_copied() -> None:
    wanted = router(filtered(1))
    found = chains(wanted, group(ingress=RULES))
    assert not [name for name in found if name.startswith(LIMIT)]
    assert "limit" not in declared(wanted, group(ingress=RULES))
    assert not [rule for rules in found.values() for rule in rules if "log" in rule]


def test_every_drop_of_a_logged_group_is_copied_first() -> None:
    found = chains(
        router(filtered(1), filtered(2)), group(ingress=RULES, logs=(log("DROP", target_id=filtered(2).id),))
    )
    assert found["firewall_ingress_group-1"] == (
        "meta nfproto ipv4 meta l4proto 6 return",
        f"meta nfproto ipv4 meta l4proto 17 jump {DROPPED['ingress']}",
        "meta nfproto ipv4 meta l4proto 17 counter name firewall_ingress_group-1 drop",
        f"meta nfproto ipv4 jump {DROPPED['ingress']}",
        "meta nfproto ipv4 meta l4proto tcp counter name firewall_ingress_group-1 reject with tcp reset",
        "meta nfproto ipv4 counter name firewall_ingress_group-1 reject with icmpx port-unreachable",
        f"jump {DROPPED['ingress']}",
        "counter name firewall_ingress_group-1 drop",
    )
    assert found["firewall_egress_group-1"][0] == f"jump {DROPPED['egress']}"
    assert found[DROPPED["egress"]] == (
        f'iifname "{QR2}" limit name "{LIMIT}" log prefix "DROP egress {QR2}" group 28269 snaplen 128',
    )
    assert found[DROPPED["ingress"]] == (
        f'oifname "{QR2}" limit name "{LIMIT}" log prefix "DROP ingress {QR2}" group 28269 snaplen 128',
    )
    assert ACCEPTED not in found
    both = [f"ct state invalid jump {chain}" for chain in DROPPED.values()]
    assert [rule for rule in found["firewall_groups"] if rule.startswith("ct state invalid jump")] == both


def test_accepted_packets_are_copied_after_the_policies_of_both_ports() -> None:
    found = chains(router(filtered(1), filtered(2)), group(ingress=RULES, logs=(log("ACCEPT"),)))
    before, after = found["firewall_opening"][-2:]
    assert (before, after.split(" set ")[0]) == (f"jump {ACCEPTED}", "ct mark")
    assert [rule.split(" limit ")[0] for rule in found[ACCEPTED]] == [
        "ct state != new return",
        "tcp flags & (syn | ack) != syn return",
        *(f'{way} "{device}"' for way in ("iifname", "oifname") for device in (QR1, QR2)),
    ]
    assert DROPPED["ingress"] not in found


def test_the_limit_is_that_of_the_options() -> None:
    assert f"limit {LIMIT} {{\nrate 200/second burst 30 packets\n}}" in declared(
        router(filtered(1)), group(logs=(log(),))
    )


def test_a_change_of_logs_filters_no_connection_anew() -> None:
    wanted = router(filtered(1))
    marks = [chains(wanted, group(ingress=RULES, logs=logs))["firewall_opening"][-1] for logs in ((), (log(),))]
    assert marks[0] == marks[1]


def test_only_groups_that_are_logged_have_rules_for_it() -> None:
    found = chains(router(filtered(1), filtered(2, "group-2")), group(logs=(log(),)), group(id="group-2"))
    assert found["firewall_ingress_group-1"][0].startswith("jump")
    assert not found["firewall_ingress_group-2"][0].startswith("jump")


def test_a_kernel_that_cannot_log_filters_all_the_same() -> None:
    found = chains(router(filtered(1)), group(logs=(log(),)), options=dataclasses.replace(OPTIONS, can_log=False))
    assert found["firewall_ingress_group-1"] == ("counter name firewall_ingress_group-1 drop",)
    assert not [name for name in found if name.startswith(LIMIT)]


def test_the_snat_port_of_a_distributed_router_has_the_logs_of_the_interface() -> None:
    interface, snat = filtered(1), structs.replace(filtered(1), id="00000005-aaaa-bbbb-cccc-dddddddddddd")
    wanted = router(interface, snat_interfaces=(snat,), distributed=True, gateway=GATEWAY)
    only = group(logs=(log(target_id=interface.id), log(target_id="another")))
    several = router_namespaces(wanted, OPTIONS, {"firewall_group": {only.id: only}})
    found = {each.kind: logged_ports(each) for each in several}
    expected = LoggedPort(interface.id, only.id, (log(target_id=interface.id),))
    assert found == {"router": {QR1: expected}, "snat": {SG: expected}}


def test_a_line_for_each_project_whose_logs_a_packet_is_for() -> None:
    logs = (log(), log("DROP", id="m"), log("ACCEPT", id="x"), log(id="y", project_id="q"))
    ports = {QR1: LoggedPort("port", "group", logs)}
    first, second = lines_of(ports, f"DROP egress {QR1}", udp(81))
    assert first.startswith("action=DROP project_id=p log_resource_ids=['l', 'm'] port=port log_names=")
    assert {"direction=egress", "protocol=udp", "dst_port=81"} <= {*first.split(" ")}
    assert "project_id=q log_resource_ids=['y']" in second
    for prefix in (f"DROP egress {QR2}", f"DROP sideways {QR1}", "", "DROP", f"OTHER egress {QR1} more"):
        assert [*lines_of(ports, prefix, udp(81))] == []
    assert [*lines_of(ports, f"DROP egress {QR1}", b"short")] == []


# --- sockets ----------------------------------------------------------------------------------------------------------


class Netfilter:
    """The logs of namespaces: which are open, and packets that arrive."""

    def __init__(self) -> None:
        self.identities = {"qrouter-r1": 1, "snat-r1": 2}
        self.open: list[str] = []
        self.refused = 0
        self.arriving: dict[str, asyncio.Queue[LoggedPacket]] = {}

    def log(self, name: str) -> Netfilter._Log:
        return Netfilter._Log(self, name)

    def identity(self, name: str) -> int:
        if name not in self.identities:
            raise FileNotFoundError(name)
        return self.identities[name]

    @dataclasses.dataclass
    class _Log:
        netfilter: Netfilter
        name: str

        async def read(self) -> AsyncIterator[LoggedPacket]:
            if self.netfilter.refused:
                self.netfilter.refused -= 1
                raise OSError("refused")
            self.netfilter.open.append(self.name)
            queue = self.netfilter.arriving.setdefault(self.name, asyncio.Queue())
            try:
                while True:
                    yield await queue.get()
            finally:
                self.netfilter.open.remove(self.name)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def service(netfilter: Netfilter, logged: dict[str, LoggedPorts], burst: int = 100) -> FirewallLogs:
    logs = NamespaceLogs(netfilter.log, netfilter.identity)  # type: ignore[arg-type]
    return FirewallLogs(lambda router: logged, logs, Bucket(lambda: 0.0, 1, burst))


def test_a_socket_is_open_while_a_namespace_has_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NETWORK_LOG)
    netfilter, ports = Netfilter(), {QR1: LoggedPort("port", "group", (log("DROP"),))}
    logged: dict[str, LoggedPorts] = {"qrouter-r1": ports}
    wanted, made = router(filtered(1)), service(netfilter, logged)

    async def run() -> None:
        assert await made.ensure(wanted, Serving()) == []
        await until(lambda: netfilter.open == ["qrouter-r1"])
        for prefix in (f"DROP ingress {QR1}", f"ACCEPT ingress {QR1}"):
            netfilter.arriving["qrouter-r1"].put_nowait(LoggedPacket(prefix, 0, 0, udp(81)))
        await until(lambda: "action=DROP" in caplog.text)
        logged["snat-r1"] = ports
        await made.ensure(wanted, Serving())
        await until(lambda: sorted(netfilter.open) == ["qrouter-r1", "snat-r1"])
        del logged["qrouter-r1"]
        await made.ensure(wanted, Serving())
        assert netfilter.open == ["snat-r1"]
        netfilter.identities["snat-r1"] = 3  # created anew
        await made.ensure(wanted, Serving())
        assert netfilter.open == []
        await until(lambda: netfilter.open == ["snat-r1"])
        await made.stop(wanted.id, moved=False)
        assert netfilter.open == []
        del netfilter.identities["snat-r1"]
        (problem,) = await made.ensure(wanted, Serving())
        assert problem.startswith("firewall groups in snat-r1 are not logged")
        await made.close()

    asyncio.run(run())
    assert "action=ACCEPT" not in caplog.text


def test_a_log_that_is_refused_is_opened_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("neutrino.agent.l3.services.firewall_log.RETRY_SECONDS", 0.0)
    netfilter = Netfilter()
    netfilter.refused = 3
    made = service(netfilter, {"qrouter-r1": {QR1: LoggedPort("port", "group", (log(),))}})

    async def run() -> None:
        await made.ensure(router(filtered(1)), Serving())
        await until(lambda: netfilter.open == ["qrouter-r1"])
        await made.close()

    asyncio.run(run())
    assert netfilter.open == []
    assert caplog.text.count("are not logged: refused") == 1


def test_the_limit_is_of_all_namespaces_together(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NETWORK_LOG)
    netfilter, ports = Netfilter(), {QR1: LoggedPort("port", "group", (log("DROP"),))}
    made = service(netfilter, {"qrouter-r1": ports, "snat-r1": ports}, burst=5)

    async def run() -> None:
        await made.ensure(router(filtered(1)), Serving())
        await until(lambda: len(netfilter.open) == 2)
        for queue in netfilter.arriving.values():
            for _ in range(4):
                queue.put_nowait(LoggedPacket(f"DROP ingress {QR1}", 0, 0, udp(81)))
        await until(lambda: all(queue.empty() for queue in netfilter.arriving.values()))
        await made.close()

    asyncio.run(run())
    assert caplog.text.count("action=DROP") == 5


def test_a_kernel_without_the_log_is_a_problem_of_the_router(tmp_path: Path) -> None:
    made = service(Netfilter(), {"qrouter-r1": {}, "snat-r1": {}})
    made.can_log = False
    (problem,) = asyncio.run(made.ensure(router(filtered(1)), Serving()))
    assert "nfnetlink_log" in problem


def test_namespaces_without_logged_ports_are_not_read() -> None:
    only = group(logs=(log(target_id="another"),))
    assert logged_namespaces(router(filtered(1)), OPTIONS, {"firewall_group": {only.id: only}}) == {}
