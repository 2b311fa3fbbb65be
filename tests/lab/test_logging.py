"""Logs of security groups on real packets: the network log of a host has accepted and dropped packets with their ids."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.lab.errors import wait_until
from tests.support.lab_control import Lab
from tests.support.lab_guests import SOON, Guest, Spec, allow, make_group, make_guests, make_network
from tests.support.lab_qos import meters

FIELD = re.compile(r"(\w+)=(\[.*?\]|\S+)")
OPEN, CLOSED = 7000, 7001  # UDP ports: the first is allowed
FLOOD = 3000


@dataclasses.dataclass
class Site:
    lab: Lab
    file: Path
    group: str  # allows UDP to OPEN
    other: str  # allows nothing in
    logged: Guest  # on h1, has both groups
    near: Guest  # on h1
    far: Guest  # on h2

    def start_agent(self) -> None:
        self.lab.start_agent("h1", {"network_log": {"local_output_log_base": str(self.file)}})

    @contextlib.contextmanager
    def log(self, **values: Any) -> Iterator[dict[str, Any]]:
        made = self.lab.api.request("POST", "/v2.0/log/logs", {"log": {"resource_type": "security_group", **values}})
        try:
            wait_until(self.copies, SOON, "no flow copies packets")
            yield made["log"]
        finally:
            self.lab.api.request("DELETE", f"/v2.0/log/logs/{made['log']['id']}")
        if not self.lab.api.request("GET", "/v2.0/log/logs")["logs"]:
            wait_until(lambda: not self.copies() and not meters(self.lab, "h1"), SOON, "flows or meters are left")

    def update(self, key: str, **values: Any) -> None:
        self.lab.api.request("PUT", f"/v2.0/log/logs/{key}", {"log": values})

    def copies(self) -> bool:
        return "controller(" in self.lab.run("h1", ["ovs-ofctl", "-O", "OpenFlow14", "dump-flows", "br-int"]).stdout

    def send(self, source: Guest, target: Guest, port: int, packets: int = 1, version: int = 4) -> int:
        """Send datagrams; returns the port that they are from."""
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        with source.socket(family, socket.SOCK_DGRAM) as sender:
            for _ in range(packets):
                sender.sendto(b"x", (target.addresses[version], port))
            return int(sender.getsockname()[1])

    def lines(self, port: int = 0) -> list[dict[str, str]]:
        """The lines about packets from a port, or all."""
        found = [dict(FIELD.findall(line)) for line in self.file.read_text().splitlines()]
        return [line for line in found if not port or line.get("src_port") == str(port)]

    def logged_from(self, port: int, number: int = 1) -> list[dict[str, str]]:
        wait_until(lambda: len(self.lines(port)) >= number, SOON, f"packets from port {port} are not logged")
        return self.lines(port)


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    rules = (allow("udp", OPEN), allow("udp", OPEN, ethertype="IPv6"))
    group, _ = make_group(lab, "web", *rules)
    other, _ = make_group(lab, "other")
    net = make_network(lab, "logged")
    file = tmp_path_factory.mktemp("log") / "network.log"
    lab.stop_agent("h1")
    lab.start_agent("h1", {"network_log": {"local_output_log_base": str(file)}})
    guests = make_guests(
        lab,
        Spec("logged", net, "h1", [group, other]),
        Spec("near", net, "h1", [other]),
        Spec("far", net, "h2", [other]),
    )
    return Site(lab, file, group, other, *guests)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("sender", ["near", "far"])
def test_accepted_and_dropped_packets_are_logged_with_their_ids(site: Site, sender: str, version: int) -> None:
    source: Guest = getattr(site, sender)
    with site.log(name="all of it", target_id=site.logged.port_id) as log:
        accepted = site.send(source, site.logged, OPEN, version=version)
        (line,) = site.logged_from(accepted)
        expected = {
            "action": "ACCEPT",
            "project_id": log["project_id"] or "",
            "log_resource_ids": f"['{log['id']}']",
            "vm_port": site.logged.port_id,
            "log_names": '["all of it"]',
            "direction": "ingress",
            "eth_src": source.mac,
            "eth_dst": site.logged.mac,
            "protocol": "udp",
            "src": source.addresses[version],
            "dst": site.logged.addresses[version],
            "src_port": str(accepted),
            "dst_port": str(OPEN),
            "length": str({4: 29, 6: 49}[version]),
        }
        assert {name: line.get(name, "") for name in expected} == expected
        dropped = site.send(source, site.logged, CLOSED, version=version)
        (line,) = site.logged_from(dropped)
        assert (line["action"], line["direction"], line["dst_port"]) == ("DROP", "ingress", str(CLOSED))


def test_packets_from_a_port_are_logged_too(site: Site) -> None:
    with site.log(event="ACCEPT", target_id=site.logged.port_id):
        (line,) = site.logged_from(site.send(site.logged, site.far, CLOSED))
        assert (line["action"], line["direction"], line["dst"]) == ("ACCEPT", "egress", site.far.addresses[4])


def test_a_group_logs_what_its_own_rules_allow_and_every_drop_of_its_ports(site: Site) -> None:
    with site.log(name="of other", resource_id=site.other), site.log(name="of web", resource_id=site.group) as web:
        wait_until(lambda: site.lines(site.send(site.far, site.logged, OPEN)) != [], SOON, "nothing is logged")
        (line,) = site.logged_from(site.send(site.far, site.logged, OPEN))
        assert line["log_resource_ids"] == f"['{web['id']}']"
        (line,) = site.logged_from(site.send(site.far, site.logged, CLOSED))
        assert (line["action"], line["log_resource_ids"].count(",")) == ("DROP", 1)


def test_events(site: Site) -> None:
    with site.log(event="DROP", target_id=site.logged.port_id):
        accepted = site.send(site.far, site.logged, OPEN)
        site.logged_from(site.send(site.far, site.logged, CLOSED))
        assert site.lines(accepted) == []


def test_the_rate_is_limited(site: Site) -> None:
    """Other packets than the flood are dropped too, such as router solicitations: the meter and the log have them all."""
    before = len(site.lines())
    with site.log(event="DROP", target_id=site.logged.port_id):
        (number,) = meters(site.lab, "h1")
        flood = site.send(site.far, site.logged, CLOSED, FLOOD)

        def passed() -> int:
            """Packets that the meter has seen and not dropped."""
            argv = ["ovs-ofctl", "-O", "OpenFlow14", "meter-stats", "br-int", f"meter={number}"]
            text = site.lab.run("h1", argv).stdout
            seen, dropped = re.search(r"packet_in_count:(\d+)", text), re.search(r"0: packet_count:(\d+)", text)
            assert seen is not None, text
            assert dropped is not None, text
            return int(seen[1]) - int(dropped[1])

        wait_until(lambda: 0 < passed() == len(site.lines()) - before, SOON, "log and meter do not agree")
        assert 0 < len(site.lines(flood)) < FLOOD / 2


def test_a_disabled_log_stops(site: Site) -> None:
    with site.log(event="DROP", target_id=site.logged.port_id) as log:
        site.logged_from(site.send(site.far, site.logged, CLOSED))
        site.update(log["id"], enabled=False)
        wait_until(lambda: not site.copies(), SOON, "packets are still copied")
        meanwhile = site.send(site.far, site.logged, CLOSED)
        site.update(log["id"], enabled=True)
        wait_until(site.copies, SOON, "packets are not copied")
        site.logged_from(site.send(site.far, site.logged, CLOSED))
        assert site.lines(meanwhile) == []


@pytest.mark.parametrize("kill", [False, True], ids=["ended", "killed"])
def test_after_a_restart_of_the_agent_packets_are_logged(site: Site, kill: bool) -> None:
    with site.log(event="DROP", target_id=site.logged.port_id):
        site.lab.stop_agent("h1", kill=kill)
        assert site.copies()
        site.start_agent()
        site.logged_from(site.send(site.far, site.logged, CLOSED))


def test_a_restarted_switch_is_listened_to_again(site: Site) -> None:
    with site.log(event="DROP", target_id=site.logged.port_id):
        site.lab.stop_ovs("h1", database=False)
        site.lab.start_ovs("h1")

        def is_logged() -> bool:
            return bool(site.lines(site.send(site.far, site.logged, CLOSED)))

        wait_until(is_logged, SOON, "packets are not logged")


def test_a_trace_of_a_logged_packet_tells_the_same(site: Site) -> None:
    def traces() -> list[tuple[str, str]]:
        found = []
        for port in (OPEN, CLOSED):
            values = {
                "source_port_id": site.far.port_id,
                "destination_address": site.logged.addresses[4],
                "protocol": "udp",
                "destination_port": port,
            }
            made = site.lab.api.request("POST", "/v2.0/traces", {"trace": values})["trace"]
            found.append((made["verdict"], made["cause"]))
        return found

    assert traces() == [("delivered", ""), ("dropped", "security-group-ingress")]
    with site.log(project_id="admin"):
        assert traces() == [("delivered", ""), ("dropped", "security-group-ingress")]
