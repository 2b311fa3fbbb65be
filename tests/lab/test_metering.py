"""Metering on real packets: what labels count in routers of each kind, and that agents' restarts lose and add nothing.

The sums are those that the server has: the difference of two of them is what it notifies others of.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.agent.l3.services.meters import FILE
from neutrino.model.objects import Object
from tests.support.lab import wait_until
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    SOON,
    external_network,
    floating_ip,
    make_router,
    tenant_network,
    wait_until_no_drift,
    wait_until_reachable,
)

KINDS: dict[str, dict[str, Any]] = {
    "centralized": {},
    "HA": {"ha": True},
    "distributed": {"distributed": True},
}
LABELS, RULES = "/v2.0/metering/metering-labels", "/v2.0/metering/metering-label-rules"
PAYLOAD = 100  # bytes of data of a ping
PACKET = PAYLOAD + 28  # with its headers


@dataclasses.dataclass
class Site:
    lab: Lab
    out: Object
    router: Object
    network: Object
    guest: Guest

    def label(self, *rules: Object, **values: Any) -> str:
        """A label with these rules, in force on all hosts."""
        made = self.lab.api.request("POST", LABELS, {"metering_label": {"name": "m", **values}})["metering_label"]
        for rule in rules:
            self.rule(made["id"], **rule)
        return str(made["id"])

    def rule(self, label: str, **values: Any) -> str:
        body = {"metering_label_rule": {"metering_label_id": label, **values}}
        made = str(self.lab.api.request("POST", RULES, body)["metering_label_rule"]["id"])
        return made

    def settle(self, label: str) -> None:
        """Wait until the label counts, and all that was sent before is reported."""
        for host in self.lab.hosts:
            wait_until_no_drift(self.lab, host)
        wait_until(lambda: self._rows(label) != [], SOON, "no host reports the label")

    def sums(self, label: str) -> tuple[int, int]:
        """Packets and bytes of a label on all hosts, as the server has them."""
        rows = self._rows(label)
        return sum(row[0] for row in rows), sum(row[1] for row in rows)

    def _rows(self, label: str) -> list[tuple[int, int]]:
        ids = [counter for host in self.lab.hosts for counter in counters(self.lab, host, label)]
        uri = f"file:{self.lab.paths.server / 'neutrino.sqlite'}?mode=ro"
        with sqlite3.connect(uri, uri=True) as database:
            marks = ", ".join("?" * len(ids))
            found = database.execute(f"SELECT packets, bytes FROM metering_totals WHERE counter_id IN ({marks})", ids)
            return list(found)

    def counts(self, label: str, packets: int) -> None:
        """The sums reach exactly this number of pings."""
        wanted = (packets, packets * PACKET)
        wait_until(lambda: self.sums(label) == wanted, SOON, f"{self.sums(label)} are counted, not {wanted}")

    def ping(self, count: int, target: str = MACHINE, source: str = "") -> None:
        command = ["ping", "-n", "-q", "-c", str(count), "-i", "0.05", "-s", str(PAYLOAD), target]
        self.lab.run(source or self.guest.name, command)


def counters(lab: Lab, host: str, label: str) -> list[str]:
    """The ids of a label's counters on a host."""
    path = Path(lab.paths.host(host)) / FILE
    if not path.exists():
        return []
    return [each["id"] for each in json.loads(path.read_text())["entries"] if each["label_id"] == label]


@pytest.fixture(scope="module", params=KINDS)
def site(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Site]:
    with cleaned(lab):
        out, network = external_network(lab), tenant_network(lab, "blue", 1)
        router = make_router(lab, out, network, **KINDS[request.param])
        group, _ = make_group(lab, "open", *EVERYTHING)
        (guest,) = make_guests(lab, Spec("one", network, "h2", [group]))
        wait_until_reachable(lab, "one", MACHINE)
        yield Site(lab, out, router, network, guest)
        for label in lab.api.request("GET", LABELS)["metering_labels"]:
            lab.api.request("DELETE", f"{LABELS}/{label['id']}")


def test_pings_are_counted_in_each_direction_and_excluded_ones_are_not(site: Site) -> None:
    """Ingress and egress by prefixes of both ends; what a label excludes is counted by the other one only."""
    inside = site.guest.addresses[4]
    both = site.label(
        {"direction": "egress", "source_ip_prefix": "10.0.1.0/24", "destination_ip_prefix": MACHINE},
        {"direction": "ingress", "source_ip_prefix": "203.0.113.0/24"},
    )
    out = site.label({"direction": "egress", "remote_ip_prefix": "10.0.1.0/24"})
    excluding = site.label(
        {"direction": "egress", "remote_ip_prefix": "0.0.0.0/0"},
        {"direction": "ingress", "remote_ip_prefix": "0.0.0.0/0"},
        {"direction": "ingress", "destination_ip_prefix": inside, "excluded": True},
    )
    elsewhere = site.label({"direction": "egress", "destination_ip_prefix": "198.51.100.0/24"})
    for label in (both, out, excluding, elsewhere):
        site.settle(label)
    site.ping(7)
    site.counts(both, 14)
    site.counts(out, 7)
    site.counts(excluding, 7)
    site.counts(elsewhere, 0)


def test_traffic_to_a_floating_ip_is_counted_by_the_address_inside(site: Site) -> None:
    fip = floating_ip(site.lab, site.out, site.guest.port_id)
    wait_until_reachable(site.lab, EXTERNAL, fip["floating_ip_address"])
    label = site.label({"direction": "ingress", "destination_ip_prefix": site.guest.addresses[4]}, shared=True)
    site.settle(label)
    site.ping(5, fip["floating_ip_address"], EXTERNAL)
    site.counts(label, 5)
    site.lab.api.delete("floatingip", fip["id"])


def test_sums_continue_when_agents_are_killed_and_labels_change(site: Site) -> None:
    lab = site.lab
    label = site.label({"direction": "egress", "remote_ip_prefix": "10.0.1.0/24"})
    site.settle(label)
    site.ping(5)
    for host in lab.hosts:
        lab.stop_agent(host, kill=True)
    site.ping(6)  # the kernel counts without agents
    for host in lab.hosts:
        lab.start_agent(host)
    site.counts(label, 11)
    # Other rules and labels render the table anew.
    rule = site.rule(label, direction="ingress", source_ip_prefix="203.0.113.0/24")
    site.settle(site.label({"direction": "egress", "remote_ip_prefix": "10.0.0.0/8"}))
    site.ping(2)
    site.counts(label, 15)
    lab.api.request("DELETE", f"{RULES}/{rule}")
    for host in lab.hosts:
        wait_until_no_drift(lab, host)
    site.ping(1)
    site.counts(label, 16)
