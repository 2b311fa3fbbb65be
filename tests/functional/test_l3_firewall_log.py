"""Logs of firewall groups on router ports, on real packets: nftables copies them, and the agent reads the copies."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import time
from collections.abc import Callable, Sequence

import pytest
from msgspec import structs

from neutrino.agent.l3.build import namespace_logs
from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.router import logged_namespaces
from neutrino.agent.l3.services.api import Serving
from neutrino.agent.l3.services.firewall_log import FirewallLogs
from neutrino.agent.network_log import NETWORK_LOG
from neutrino.agent.runtime.bucket import Bucket
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.nft.real import RealNft
from neutrino.model.firewall import FirewallGroup, FirewallLog
from neutrino.model.packet_log import ACCEPT, DROP
from neutrino.model.routing import Router
from tests.support.filtered_router import ADDRESSES, DUAL_GATEWAY, INSIDE, OTHER, FilteredRouter, filtered, net
from tests.support.firewall import LOST, PASSES, REFUSED, TCP, UDP, assert_fates, group, rule
from tests.support.routing import router

__all__ = ["net"]  # fixture

PATIENCE = 20.0  # seconds
ROUTER = router(filtered(1), filtered(2, ""), gateway=DUAL_GATEWAY)
PORT = ROUTER.interfaces[0].id
RULES = (rule(protocol=TCP, dport=80), rule("reject", TCP, dport=81), rule(protocol=TCP, dport=80, version=6))
Step = tuple[Callable[[], str], str]
"""Sends a packet, and what has to become of it."""


def log(event: str = "ALL", **values: str) -> FirewallLog:
    return FirewallLog(**{"id": f"log-{event}", "project_id": "p", "event": event, **values})  # type: ignore[arg-type]


def logged(net: FilteredRouter, wanted: Router, only: FirewallGroup, steps: Sequence[Step], *texts: str) -> list[str]:
    """The lines while the agent reads the namespace, until some have these texts, which the steps cause."""
    lines: list[str] = []

    class Collected(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    def ports(router: Router) -> dict[str, object]:
        (found,) = logged_namespaces(router, L3Options(), {"firewall_group": {only.id: only}}).values()
        return {net.namespace: found}

    async def run() -> None:
        service = FirewallLogs(ports, namespace_logs(Namespaces()), Bucket(time.monotonic, 1000, 1000))  # type: ignore[arg-type]
        assert await service.ensure(wanted, Serving()) == []
        async with asyncio.timeout(PATIENCE):
            while not all(
                any(text in line for line in lines) for text in texts
            ):  # until the socket is open, nothing is copied
                await asyncio.to_thread(assert_fates, lambda send: send(), dict(steps))
        assert await service.ensure(wanted, Serving()) == []
        await service.close()

    net.apply(wanted, only)
    handler, output = Collected(), logging.getLogger(NETWORK_LOG)
    output.addHandler(handler)
    try:
        asyncio.run(run())
    finally:
        output.removeHandler(handler)
    return lines


def words(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split(" "))


@pytest.mark.parametrize("version", [4, 6])
def test_accepted_connections_and_dropped_packets(net: FilteredRouter, version: int) -> None:
    steps = (
        (lambda: net.send(OTHER, INSIDE, TCP, 80, version=version), PASSES),
        (lambda: net.send(OTHER, INSIDE, UDP, 90, version=version), LOST),
    )
    only = group(ingress=RULES, logs=(log(),))
    lines = [words(line) for line in logged(net, ROUTER, only, steps, "dst_port=90", "dst_port=80")]
    found = {(each["action"], each["direction"], each["protocol"], each["dst_port"]) for each in lines}
    assert found == {("ACCEPT", "ingress", "tcp", "80"), ("DROP", "ingress", "udp", "90")}
    assert {(each["port"], each["project_id"], each["log_resource_ids"]) for each in lines} == {
        (PORT, "p", "['log-ALL']")
    }
    # Of a connection that is answered, its first packet alone.
    connections = [each["src_port"] for each in lines if each["action"] == ACCEPT]
    assert len(connections) == len({*connections})


def test_a_log_has_the_packets_of_its_event(net: FilteredRouter) -> None:
    steps = (
        (lambda: net.send(OTHER, INSIDE, TCP, 80), PASSES),
        (lambda: net.send(OTHER, INSIDE, TCP, 81), REFUSED),
        (lambda: net.send(INSIDE, OTHER, UDP, 90), LOST),
    )
    dropped = [
        words(line) for line in logged(net, ROUTER, group(ingress=RULES, logs=(log(DROP),)), steps, "=90", "=81")
    ]
    assert {(each["action"], each["direction"], each["dst_port"]) for each in dropped} == {
        (DROP, "ingress", "81"),
        (DROP, "egress", "90"),
    }
    only = group(ingress=RULES, logs=(log(ACCEPT, target_id=PORT), log(DROP, target_id="another")))
    accepted = [words(line) for line in logged(net, ROUTER, only, steps, "=80")]
    assert {(each["action"], each["direction"], each["dst_port"]) for each in accepted} == {(ACCEPT, "ingress", "80")}


def test_between_subnets_of_a_distributed_router_a_connection_is_one_line(net: FilteredRouter) -> None:
    wanted = structs.replace(ROUTER, distributed=True)
    steps = (
        (lambda: net.send(OTHER, INSIDE, TCP, 80), PASSES),
        (lambda: net.send(OTHER, INSIDE, UDP, 90), LOST),
    )
    lines = [words(line) for line in logged(net, wanted, group(ingress=RULES, logs=(log(),)), steps, "=80", "=90")]
    accepted = [each["src_port"] for each in lines if each["action"] == ACCEPT]
    assert len(accepted) == len({*accepted})
    assert {(each["action"], each["direction"], each["dst_port"]) for each in lines} == {
        (ACCEPT, "ingress", "80"),
        (DROP, "ingress", "90"),
    }


def test_connections_survive_a_change_of_logs(net: FilteredRouter) -> None:
    net.filter(group(ingress=RULES, logs=(log(),)))
    with net.connection(OTHER, INSIDE, 80) as (client, server):
        plan = net.filter(group(ingress=RULES))
        assert plan
        client.send(b"more")
        assert server.recv(10) == b"more"
        assert "log prefix" not in net.run("nft", "list", "ruleset")
        assert net.counted("firewall_ended") == 0


def test_a_flood_is_limited_in_the_kernel(net: FilteredRouter) -> None:
    flood = 400

    def send() -> str:
        with net.socket(OTHER, socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(flood):
                sender.sendto(b"x", (ADDRESSES[INSIDE][0], 90))
        return LOST

    before = time.monotonic()
    lines = logged(net, ROUTER, group(ingress=RULES, logs=(log(DROP),)), [(send, LOST)], "dst_port=90")
    counted = net.counted("firewall_ingress_group-1")
    assert counted % flood == 0  # the limit is on the copies alone
    assert 0 < len(lines) <= 25 + 100 * (time.monotonic() - before + 1)


def test_the_kernel_is_asked_whether_it_logs() -> None:
    assert RealNft().can_log()
    listed = subprocess.run(["nft", "list", "tables"], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert "neutrino_check" not in listed
