"""Rates on real packets: what the API shows of ports, tunnels and routers agrees with what instances send."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.model.objects import Object
from tests.support.lab import wait_until
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.lab_kinds import LabKind
from tests.support.metrics import parse
from tests.support.routing_lab import tenant_network, wait_until_reachable

HOSTS = ("h1", "h2")
PINGS, PAYLOAD = 400, 1000
FRAME = PAYLOAD + 28 + 14  # with the headers of ICMP, IPv4 and Ethernet
SENT = PINGS * FRAME
SECONDS = 15  # between reports: the shortest of which the server keeps all
LONG = 60
LAB = LabKind(hosts=2, roles=("l2",), agent=f"[agent]\nrates_interval = {SECONDS}\n")


@pytest.fixture(scope="module")
def guests(lab: Lab) -> list[Guest]:
    """Instances on two hosts."""
    group, _ = make_group(lab, "open", *EVERYTHING)
    network = tenant_network(lab, "blue", 1)
    made = make_guests(lab, *(Spec(f"on-{host}", network, host, [group]) for host in HOSTS))
    wait_until_reachable(lab, made[0].name, made[1].addresses[4])
    return made


def shown(lab: Lab, query: str) -> Object:
    found: Object = lab.api.request("GET", f"/v2.0/rates?{query}")
    return found


def port_of(lab: Lab, guest: Guest) -> str:
    return next(str(port["id"]) for port in lab.api.list("port") if port["name"] == guest.name)


def total(samples: list[list[float]], column: int) -> float:
    """The bytes that a column of bits per second adds up to."""
    return sum(row[column] for row in samples) * SECONDS / 8


def ping(lab: Lab, one: Guest, other: Guest) -> None:
    lab.run(one.name, ["ping", "-q", "-i", "0.01", "-c", str(PINGS), "-s", str(PAYLOAD), other.addresses[4]])


def test_the_rate_is_that_of_the_traffic(lab: Lab, guests: list[Guest]) -> None:
    one, other = guests
    ports = [port_of(lab, guest) for guest in guests]
    query = f"port_id={ports[0]}&port_id={ports[1]}"

    def samples() -> dict[str, list[list[float]]]:
        return {each["port_id"]: each["samples"] for each in shown(lab, query)["rates"]}

    wait_until(lambda: all(samples().values()), LONG, "no host reports")
    ping(lab, one, other)

    # Requests and replies have the same size: as much in each direction, on both ports.
    def is_seen() -> bool:
        now = samples()
        return all(total(now[port], column) >= 0.9 * SENT for port in ports for column in (1, 2))

    wait_until(is_seen, LONG, f"the traffic of {SENT} bytes is not seen: {samples()}")
    for port in ports:
        for column in (1, 2):
            assert total(samples()[port], column) < 1.6 * SENT, samples()


def test_tunnels_and_metrics(lab: Lab, guests: list[Guest]) -> None:
    one, other = guests
    ping(lab, one, other)
    port = port_of(lab, one)

    def tunnels() -> list[Any]:
        return [each for each in shown(lab, "host=h1")["tunnels"] if total(each["samples"], 1) > SENT * 0.9]

    wait_until(lambda: bool(tunnels()), LONG, "the tunnel's traffic is not seen")
    text = lab.run("h1", ["curl", "-sS", "--noproxy", "*", "http://127.0.0.1:9698/metrics"]).stdout
    assert parse(text).value("neutrino_agent_port_bytes_total", port=port, direction="out") >= SENT
    assert (
        parse(text).value("neutrino_agent_tunnel_bytes_total", remote=tunnels()[0]["address"], direction="out") >= SENT
    )


def test_a_restarted_switch_makes_no_peak(lab: Lab, guests: list[Guest]) -> None:
    """Its counters may start again from zero: neither what they had before nor a negative rate is shown as traffic."""
    one, other = guests
    port = port_of(lab, one)

    def samples() -> list[list[float]]:
        found: list[list[float]] = shown(lab, f"port_id={port}")["rates"][0]["samples"]
        return found

    lab.stop_ovs("h1", kill=True, database=False)
    lab.start_ovs("h1")
    wait_until_reachable(lab, one.name, other.addresses[4])
    before = max((row[0] for row in samples()), default=0)
    ping(lab, one, other)

    def since() -> float:
        return total([row for row in samples() if row[0] > before], 2)

    wait_until(lambda: since() >= 0.9 * SENT, LONG, "no traffic is seen after the switch was restarted")
    assert since() < 2.5 * SENT, samples()
    assert all(0 <= total([row], column) < 2.5 * SENT for row in samples() for column in (1, 2)), samples()
