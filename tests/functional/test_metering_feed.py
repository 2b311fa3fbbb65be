"""Metering labels and NDP proxies in the feed, and what hosts report of traffic: every byte is notified of once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.feed.address import Address
from neutrino.model.routing import MeteredTraffic, MeteringRule, Router
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import l3_agent
from tests.api.ndp import scoped
from tests.functional.test_notifications_rabbitmq import consume, declare_queue, forget_queues, notifying
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, serving, until
from tests.support.rabbitmq import RabbitMQ

LABELS, RULES = "/metering/metering-labels", "/metering/metering-label-rules"
Sent = tuple[str, dict[str, Any], str]


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, getattr(request, "param", "sqlite"), tmp_path), {})
    l3_agent(made, "h1")
    yield made
    made.close()


@contextlib.asynccontextmanager
async def host(
    server: Server, directory: Path, publish: Callable[..., None] = lambda *sent: None
) -> AsyncIterator[HostEnd]:
    address = Address(path=str(directory / "feed.sock"))
    async with (
        serving(server, address, publish=publish),
        HostEnd(address, "h1", Credentials(server.db).add("h1")) as end,
    ):
        yield end


def counter(packets: int, last_update: int, key: str = "c1", **values: Any) -> MeteredTraffic:
    known = {"label_id": "l1", "router_id": "r1", "project_id": "p1", "first_update": 100, **values}
    return MeteredTraffic(id=key, packets=packets, bytes=packets * 100, last_update=last_update, **known)


unplaced = counter


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_hosts_receive_labels_and_proxies_with_their_router(server: Server, tmp_path: Path) -> None:
    api = Api(server.app)
    admin, made = api.as_admin(), scoped(api)
    router_id, port = made.router["id"], api.port(made.network)

    async def run() -> None:
        async with host(server, tmp_path) as end:

            async def after(call: Callable[[], Any]) -> Router:
                """The router as the host has it after a request."""
                await asyncio.to_thread(call)
                await end.equals_the_database(server)
                found = end.client.state.get("router", router_id)
                assert isinstance(found, Router)
                return found

            assert (await after(lambda: None)).enable_ndp_proxy
            body = {"ndp_proxy": {"router_id": router_id, "port_id": port["id"]}}
            proxied = await after(lambda: api.post("/ndp_proxies", body).expect(201))
            assert [each.ip_address for each in proxied.ndp_proxies] == [port["fixed_ips"][0]["ip_address"]]
            gone = await after(lambda: api.delete(f"/ports/{port['id']}").expect(204))
            assert gone.ndp_proxies == ()

            own, shared = (admin.make("metering_label", shared=each)["id"] for each in (False, True))
            foreign = admin.make("metering_label", project_id="another")["id"]
            labelled = await after(lambda: None)
            assert {each.id for each in labelled.metering_labels} == {own, shared}
            given = {"metering_label_id": own, "direction": "egress", "remote_ip_prefix": "10.0.0.7/24"}
            ruled = await after(lambda: admin.make("metering_label_rule", **given))
            (label,) = (each for each in ruled.metering_labels if each.id == own)
            assert label.rules == (MeteringRule(direction="egress", source="10.0.0.0/24"),)
            (rule,) = admin.all(RULES, {"metering_label_id": own})
            unruled = await after(lambda: admin.delete(f"{RULES}/{rule['id']}").expect(204))
            assert all(not each.rules for each in unruled.metering_labels)
            for label_id, left in ((shared, {own}), (own, set()), (foreign, set())):
                deleted = await after(lambda key=label_id: admin.delete(f"{LABELS}/{key}").expect(204))  # type: ignore[misc]
                assert {each.id for each in deleted.metering_labels} == left

    asyncio.run(run())


def test_only_traffic_of_routers_that_the_host_has_or_had_is_counted(server: Server, tmp_path: Path) -> None:
    api, sent = Api(server.app), list[Sent]()
    admin = api.as_admin()
    l3_agent(server, "h2")
    agents = {each["host"]: each["id"] for each in admin.all("/agents", {"agent_type": "L3 agent"})}
    mine, others = (api.make("router", name=name) for name in ("mine", "others"))
    for router, name in ((mine, "h1"), (others, "h2")):
        for each in admin.get(f"/routers/{router['id']}/l3-agents").expect(200).body["agents"]:
            admin.delete(f"/agents/{each['id']}/l3-routers/{router['id']}").expect(204)
        admin.post(f"/agents/{agents[name]}/l3-routers", {"router_id": router["id"]}).expect(201)
    own, foreign = (admin.make("metering_label", project_id=key)["id"] for key in (api.project, "another"))

    async def run() -> None:
        async with host(server, tmp_path, lambda *each: sent.append(each)) as end:
            await end.equals_the_database(server)

            async def report(at: int, **values: Any) -> list[tuple[str, str]]:
                """Label and project of the notifications that follow from a report."""
                sent.clear()
                known = {"label_id": own, "router_id": mine["id"], "project_id": api.project, **values}
                end.client.traffic([counter(at, at, f"c{at}", **known)], granular=False)
                await until(lambda: end.client.is_traffic_acknowledged, "the report is acknowledged")
                return [(payload["label_id"], payload["tenant_id"]) for _, payload, _ in sent]

            right = [(own, api.project)]
            assert await report(110) == right
            assert await report(120, router_id=others["id"]) == []
            assert await report(130, router_id="no-such-router") == []
            assert await report(140, label_id=foreign) == []
            assert await report(150, project_id="another") == right, "the router's project counts"
            assert await report(160, label_id="deleted-label") == [("deleted-label", api.project)]
            # The last counters of a router are reported after it has left.
            moved = f"/agents/{agents['h1']}/l3-routers/{mine['id']}"
            await asyncio.to_thread(lambda: admin.delete(moved).expect(204))
            await end.equals_the_database(server)
            assert end.client.state.get("router", mine["id"]) is None
            assert await report(170) == right
            await asyncio.to_thread(lambda: api.delete(f"/routers/{mine['id']}").expect(204))
            assert await report(180) == right

    asyncio.run(run())


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_what_was_counted_is_notified_of_once(server: Server, tmp_path: Path) -> None:
    sent: list[Sent] = []
    router_id = scoped(Api(server.app)).router["id"]

    def counter(packets: int, last_update: int, key: str = "c1", **values: Any) -> MeteredTraffic:
        return unplaced(packets, last_update, key, router_id=router_id, **values)

    async def run() -> None:
        async with host(server, tmp_path, lambda *each: sent.append(each)) as end:

            async def report(*counters: MeteredTraffic) -> list[tuple[int, int]]:
                """Packets and seconds of the notifications that follow from a report."""
                sent.clear()
                end.client.traffic(counters, granular=False)
                await until(lambda: end.client.is_traffic_acknowledged, "the report is acknowledged")
                return [(payload["pkts"], payload["time"]) for _, payload, _ in sent]

            assert await report(counter(5, 110)) == [(5, 10)]
            assert sent[0][0] == "l3.meter"
            assert (sent[0][2], sent[0][1]["host"]) == ("metering.h1", "h1")
            assert await report(counter(5, 110)) == [], "repeated after a lost connection"
            assert await report(counter(8, 140), counter(2, 140, "c2", first_update=120)) == [(5, 30)]  # of one label
            assert await report(counter(8, 170), counter(2, 170, "c2")) == [(0, 30)], "also without traffic"
            assert await report(counter(9, 200)) == [(1, 30)]
            assert await report(counter(4, 230, "c2", first_update=210)) == [(4, 20)], "forgotten meanwhile"

    asyncio.run(run())


@pytest.mark.rabbitmq
def test_ceilometers_messages_through_rabbitmq(server: Server, tmp_path: Path, rabbitmq: RabbitMQ) -> None:
    url = rabbitmq.at("metering")
    forget_queues(url)
    declare_queue(url)
    api = Api(server.app)
    label, router_id = api.as_admin().make("metering_label", name="m"), scoped(api).router["id"]

    async def run(publish: Callable[..., None]) -> None:
        async with host(server, tmp_path, publish) as end:
            for granular, packets, at in ((False, 5, 130), (True, 7, 160)):
                traffic = counter(packets, at, label_id=label["id"], router_id=router_id)
                end.client.traffic([traffic], granular=granular)
                await until(lambda: end.client.is_traffic_acknowledged, "the report is acknowledged")

    try:
        with notifying(url) as notifier:
            asyncio.run(run(notifier.publish))
            plain, *granular = consume(url, 6)
    finally:
        forget_queues(url)
    assert (plain["event_type"], plain["publisher_id"], plain["priority"]) == ("l3.meter", "metering.h1", "INFO")
    times = {"time": 30, "first_update": 100, "last_update": 130, "host": "h1"}
    assert plain["payload"] == {"label_id": label["id"], "tenant_id": api.project, "pkts": 5, "bytes": 500, **times}
    assert {each["event_type"] for each in granular} == {
        f"l3.meter.{each}" for each in ("label", "router", "project", "label_router", "label_project")
    }
    assert {each["payload"]["pkts"] for each in granular} == {2}
    assert next(each["payload"]["label_name"] for each in granular if each["event_type"] == "l3.meter.label") == "m"
