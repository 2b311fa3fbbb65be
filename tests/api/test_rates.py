"""GET /v2.0/rates: series of ports, routers and hosts, by what their hosts report."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.rates.reports import SLOT_SECONDS, SLOTS, WINDOW, RateReports
from neutrino.features.rates.tables import host_rates
from neutrino.feed.messages import Rates
from neutrino.model.rates import Counted
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.l3 import attach, inside


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(server: Server, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(1_800_000_000.0)
    monkeypatch.setattr(server.registry, "clock", made)
    return made


@pytest.fixture
def reports(server: Server, clock: Clock) -> RateReports:
    with server.db.transaction() as tx:
        tx.execute(sa.delete(host_rates))
    return RateReports(server.db, clock)


def samples(api: Api, **query: Any) -> list[dict[str, Any]]:
    body = api.get("/rates", query).expect(200).body
    assert body["columns"] == ["at", "bits_in", "bits_out", "packets_in", "packets_out", "drops_in", "drops_out"]
    found: list[dict[str, Any]] = body["rates"]
    return found


def bound(server: Server, admin: Api, host: str = "h1", **values: Any) -> str:
    switch(server, host)
    network = admin.network(**values)
    return str(admin.port(network, binding__host_id=host, **values)["id"])


@pytest.mark.every_database
def test_the_series_of_a_port(server: Server, admin: Api, clock: Clock, reports: RateReports) -> None:
    port = bound(server, admin)
    for sent in (300, 0, 600):
        counted = {port: Counted(sent * 10, sent, 5, 3, 1)} if sent else {"other": Counted(1)}
        reports.take([("h1", Rates(seconds=30, ports=counted)), ("h2", Rates(seconds=30))])
        clock.now += 30
    at = int(clock.now) - 90
    (found,) = samples(admin, port_id=port)
    assert found == {
        "port_id": port,
        "samples": [
            [at, 800, 80, 0, 0, 1, 0],
            [at + 30, 0, 0, 0, 0, 0, 0],
            [at + 60, 1600, 160, 0, 0, 1, 0],
        ],
    }
    clock.now += WINDOW
    assert samples(admin, port_id=port)[0]["samples"] == []


def test_no_host_reports_on_the_ports_of_others(server: Server, admin: Api, clock: Clock, reports: RateReports) -> None:
    port = bound(server, admin, "h1")
    unbound = admin.port(admin.network())["id"]
    reports.take([("evil", Rates(seconds=30, ports={port: Counted(10**9), unbound: Counted(10**9)}))])
    assert [one["samples"] for one in samples(admin, port_id=[port, unbound])] == [[], []]
    clock.now += 30
    reports.take([("h1", Rates(seconds=30, ports={port: Counted(30)}))])
    shown = {one["port_id"]: one["samples"] for one in samples(admin, port_id=[port, unbound])}
    assert [row[1] for row in shown[port]] == [8]
    switch(server, "evil")
    named = admin.get("/rates", {"host": "evil"}).expect(200).body
    assert named["rates"] == []


def test_a_host_has_a_ring_of_rows(server: Server, admin: Api, clock: Clock, reports: RateReports) -> None:
    for _ in range(SLOTS * 3):
        reports.take([("h1", Rates(seconds=15))])
        reports.take([("h1", Rates(seconds=1, ports={"p": Counted(1)}))])  # too soon: it is not stored
        clock.now += SLOT_SECONDS
    with server.db.read() as connection:
        rows = connection.execute(sa.select(host_rates.c.seconds).where(host_rates.c.host == "h1")).scalars().all()
        assert (len(rows), set(rows)) == (SLOTS, {15})
    clock.now += 3 * WINDOW
    reports.take([("h2", Rates(seconds=15))])  # hosts that are gone leave nothing
    with server.db.read() as connection:
        assert connection.execute(sa.select(host_rates.c.host).distinct()).scalars().all() == ["h2"]


def test_members_see_their_own(server: Server, admin: Api, reports: RateReports) -> None:
    member = admin.as_stranger()
    own, other = bound(server, admin, project_id=member.project), bound(server, admin)
    reports.take([("h1", Rates(seconds=30, ports={own: Counted(30), other: Counted(30)}))])
    assert [one["port_id"] for one in samples(member, port_id=[own, other])] == [own]
    assert samples(member.as_stranger(), port_id=[own, other]) == []
    member.get("/rates", {"host": "h1"}).refused(403)
    router = admin.make("router")
    assert samples(member, router_id=router["id"]) == []


@pytest.mark.every_database
def test_a_router_is_the_sum_of_its_ports(server: Server, admin: Api, reports: RateReports) -> None:
    router = admin.make("router")
    made = [inside(admin, cidr)[1] for cidr in ("10.1.0.0/24", "10.2.0.0/24")]
    for subnet in made:
        attach(admin, router, subnet_id=subnet["id"]).expect(200)
    ports = [port["id"] for port in admin.all("/ports", {"device_id": router["id"]})]
    switch(server, "h1")
    with server.db.transaction() as tx:
        tx.execute(sa.update(t.ports).where(t.ports.c.id.in_(ports)).values(host="h1"))
    reports.take([("h1", Rates(seconds=30, ports={ports[0]: Counted(300, 30), ports[1]: Counted(60)}))])
    (found,) = samples(admin, router_id=router["id"])
    assert (found["router_id"], [row[1:3] for row in found["samples"]]) == (router["id"], [[96, 8]])


def test_the_sum_of_so_many_ports_says_what_it_is_without(
    server: Server, admin: Api, reports: RateReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    routers = sorted(admin.make("router")["id"] for _ in range(3))
    counted: dict[str, Counted] = {}
    of_router: dict[str, list[str]] = {}
    for number, (key, cidrs) in enumerate(zip(routers, (1, 2, 1), strict=True)):
        for part in range(cidrs):
            subnet = inside(admin, f"10.{number}.{part}.0/24")[1]
            attach(admin, {"id": key}, subnet_id=subnet["id"]).expect(200)
        of_router[key] = [port["id"] for port in admin.all("/ports", {"device_id": key})]
        counted |= dict.fromkeys(of_router[key], Counted(30))
    switch(server, "h1")
    with server.db.transaction() as tx:
        tx.execute(sa.update(t.ports).where(t.ports.c.id.in_(list(counted))).values(host="h1"))
    reports.take([("h1", Rates(seconds=30, ports=counted))])

    def sums() -> list[tuple[str, list[int], int]]:
        found = samples(admin, router_id=routers)
        return [(one["router_id"], [row[1] for row in one["samples"]], one["ports_left"]) for one in found]

    first, second, third = routers
    assert sums() == [(first, [8], 0), (second, [16], 0), (third, [8], 0)]
    monkeypatch.setattr("neutrino.features.rates.api.MAX_PORTS", 2)
    assert sums() == [(first, [8], 0), (second, [8], 1), (third, [], 1)]


def test_the_reports_of_so_many_hosts_are_read(
    server: Server, admin: Api, reports: RateReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neutrino.features.rates.api.MAX_HOSTS", 2)
    ports = [bound(server, admin, host) for host in ("h1", "h2", "h3")]
    reports.take([(host, Rates(seconds=30)) for host in ("h1", "h2", "h3")])
    body = admin.get("/rates", {"port_id": ports}).expect(200).body
    assert (body["hosts_left"], sorted(len(one["samples"]) for one in body["rates"])) == (1, [0, 1, 1])


def test_a_host_with_its_tunnels(
    server: Server, admin: Api, reports: RateReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = bound(server, admin)
    reports.take([("h1", Rates(seconds=30, ports={port: Counted(30)}, tunnels={"192.0.2.9": Counted(60, 30)}))])
    body = admin.get("/rates", {"host": "h1"}).expect(200).body
    assert [one["port_id"] for one in body["rates"]] == [port]
    assert [(one["address"], one["samples"][0][1:3]) for one in body["tunnels"]] == [("192.0.2.9", [16, 8])]
    assert body["tunnels_left"] == 0
    monkeypatch.setattr("neutrino.features.rates.api.MAX_TUNNELS", 0)
    body = admin.get("/rates", {"host": "h1"}).expect(200).body
    assert (body["tunnels"], body["tunnels_left"]) == ([], 1)
    assert admin.get("/rates", {"host": "nowhere"}).expect(200).body["tunnels"] == []


@pytest.mark.parametrize(
    "query",
    [
        "port_id=a&router_id=b",
        "ports=a",
        "port_id=%00",
        "port_id=" + "x" * 300,
        "host=a&host=b",
        "&".join(f"port_id={number}" for number in range(201)),
    ],
)
def test_odd_queries_are_refused(admin: Api, query: str) -> None:
    admin.get(f"/rates?{query}").refused(400)
    assert samples(admin, port_id="nonsense") == []
    assert samples(admin) == []
