"""The agents API: through the pipeline where it is generic, through its own routes where it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from oslo_config import cfg

from neutrino.model import agents as words
from neutrino.model.agents import AgentState
from neutrino.server import errors
from neutrino.server.api.catalog import serve
from neutrino.server.api.pipeline import Pipeline, Reply, Request
from neutrino.server.collection import Listing
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, fresh
from neutrino.server.db.session import Database
from neutrino.server.db.view import View
from neutrino.server.hosts.registry import Registry
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.scheduling.agents_api import Agents, placement_routes
from neutrino.server.services import ignore
from tests.support.databases import prepared_sqlite
from tests.support.dhcp_ports import scheduler_without_ports

ADMIN = admin_context("admins")
ALICE = Context(
    "a", roles=frozenset({"member", "reader"}), credentials={"roles": ["member", "reader"], "project_id": "a"}
)
DEAD = "00000000-0000-0000-0000-00000000dead"


class Api:
    """The agents plugin behind a pipeline, with a clock to turn."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.now = 1_800_000_000.0
        self.registry = Registry(db, clock=lambda: self.now)
        self.scheduler = scheduler_without_ports(db, self.registry)
        self.plugin = Agents(db, self.registry, [self.scheduler])
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[], default_config_dirs=[])
        authorizer = Authorizer(conf)
        self.pipeline = Pipeline(authorizer, lambda resource, projects: None, ignore)
        (self.served,) = serve([self.plugin])
        routes = placement_routes(
            db,
            authorizer,
            ignore,
            self.scheduler,
            Listing(db, View(t.networks, columns=("id", "name"), scope=sa.false())),
            partial(self.plugin.serving, self.scheduler.placements),
        )
        self.handlers = {(route.method, route.path): route.handler for route in routes}

    def call(
        self, verb: str, context: Context = ADMIN, key: str = "", body: Any = None, **pairs: str
    ) -> dict[str, Any] | None:
        raw = json.dumps(body).encode() if body is not None else b""
        request = Request(context, raw, list(pairs.items()), key=key)
        return plain(getattr(self.pipeline, verb)(self.served, request))

    def route(
        self, method: str, path: str, parent: str, key: str = "", body: Any = None, context: Context = ADMIN
    ) -> Any:
        raw = json.dumps(body).encode() if body is not None else b""
        reply = self.handlers[method, path](Request(context, raw, parent=parent, key=key))
        return reply.status, plain(reply)

    def agent(self, host: str = "h1", kind: str = words.DHCP) -> str:
        state = AgentState(kind, "neutrino-agent", host, "dhcp_agent", "nova", {"networks": 0, "x": {"y": [1]}})
        return self.registry.report(state).agent_id

    def network(self) -> str:
        network = fresh({"project_id": "p", "name": "n"})
        subnet = fresh({"project_id": "p", "network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"})
        with self.db.transaction() as tx:
            tx.execute(sa.insert(t.networks).values(as_row(t.networks, network)))
            tx.execute(sa.insert(t.subnets).values(as_row(t.subnets, subnet)))
        return str(network["id"])

    def changes(self) -> list[tuple[str, str, bool]]:
        c = t.changes.c
        with self.db.read() as connection:
            rows = connection.execute(sa.select(c.kind, c.object_id, c.deleted).order_by(c.id))
            return [(kind, object_id, deleted) for kind, object_id, deleted in rows]


def plain(reply: Reply) -> Any:
    """The answer as a client reads it."""
    return None if reply.body is None else msgspec.json.decode(msgspec.json.encode(reply.body))


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    db = Database(prepared_sqlite(tmp_path / "test.sqlite"), sqlite_durable=False)
    yield Api(db)
    db.close()


NETWORKS = "/v2.0/agents/{parent}/dhcp-networks"
NETWORK = f"{NETWORKS}/{{key}}"
AGENTS = "/v2.0/networks/{parent}/dhcp-agents"


def test_an_agent_as_the_api_shows_it(api: Api) -> None:
    agent = api.agent()
    api.now += 60
    api.agent()
    expected = {
        "id": agent,
        "agent_type": "DHCP agent",
        "binary": "neutrino-agent",
        "topic": "dhcp_agent",
        "host": "h1",
        "admin_state_up": True,
        "created_at": "2027-01-15 08:00:00",
        "started_at": "2027-01-15 08:00:00",
        "heartbeat_timestamp": "2027-01-15 08:01:00",
        "description": None,
        "resources_synced": None,
        "availability_zone": "nova",
        "alive": True,
        "configurations": {"networks": 0, "x": {"y": [1]}},
        "resource_versions": {},
    }
    assert api.call("show", key=agent) == {"agent": expected}
    assert api.call("index") == {"agents": [expected]}


def test_only_administrators_see_agents(api: Api) -> None:
    agent = api.agent()
    assert api.call("index", ALICE) == {"agents": []}
    for context, key in ((ALICE, DEAD), (ALICE, agent), (ADMIN, DEAD)):
        with pytest.raises(errors.AgentNotFound):
            api.call("show", context, key)


def test_filters(api: Api) -> None:
    gone = api.agent("h1")
    api.now += 100
    here = api.agent("h2")
    other = api.agent("h2", words.L3)

    def ids(**pairs: str) -> set[str]:
        answer = api.call("index", **pairs)
        assert answer is not None
        return {agent["id"] for agent in answer["agents"]}

    assert ids(alive="True") == {here, other}
    assert ids(alive="false") == {gone}
    assert ids(alive="true", agent_type="L3 agent") == {other}
    assert ids(host="h1") == {gone}
    assert ids(binary="nothing") == set()
    assert api.call("index", host="h1", fields="alive") == {"agents": [{"alive": False}]}
    with pytest.raises(errors.HTTPBadRequest):
        ids(heartbeat_timestamp="x")


def test_alive_follows_the_clock(api: Api) -> None:
    agent = api.agent()
    for wait, alive in ((75, True), (1, False)):
        api.now += wait
        answer = api.call("show", key=agent, fields="alive")
        assert answer == {"agent": {"alive": alive}}


@pytest.mark.parametrize("body", [{"agent": {"binary": "x"}}, {"agent": {}}, {"agents": [{}]}, []])
def test_agents_are_not_created(api: Api, body: Any) -> None:
    with pytest.raises(errors.HTTPBadRequest):
        api.call("create", body=body)
    with pytest.raises(errors.HTTPBadRequest):
        api.plugin.create(ADMIN, {})


def test_update(api: Api) -> None:
    agent = api.agent()
    answer = api.call("update", key=agent, body={"agent": {"admin_state_up": False, "description": "in repair"}})
    assert answer is not None
    assert (answer["agent"]["admin_state_up"], answer["agent"]["description"]) == (False, "in repair")
    assert answer == api.call("show", key=agent)
    assert api.changes() == [("agent", agent, False)] * 2
    assert api.call("update", key=agent, body={"agent": {}}) == answer
    assert len(api.changes()) == 2
    with pytest.raises(errors.HTTPBadRequest):
        api.call("update", key=agent, body={"agent": {"host": "h2"}})
    with pytest.raises(errors.AgentNotFound):
        api.call("update", key=DEAD, body={"agent": {"admin_state_up": False}})
    with pytest.raises(errors.AgentNotFound):
        api.call("update", ALICE, agent, {"agent": {"admin_state_up": False}})


def test_a_disabled_agent_keeps_its_networks_and_gets_none(api: Api) -> None:
    agent, first = api.agent(), api.network()
    api.scheduler.schedule(first)
    api.call("update", key=agent, body={"agent": {"admin_state_up": False}})
    second = api.network()
    assert api.scheduler.schedule(second) == []
    assert api.route("GET", NETWORKS, agent) == (200, {"networks": [{"id": first, "name": "n"}]})
    api.call("update", key=agent, body={"agent": {"admin_state_up": True}})
    _, answer = api.route("GET", NETWORKS, agent)
    assert {n["id"] for n in answer["networks"]} == {first, second}


def test_others_take_the_networks_of_a_disabled_agent(api: Api) -> None:
    agent, network = api.agent("h1"), api.network()
    api.scheduler.schedule(network)
    heir = api.agent("h2")
    api.call("update", key=agent, body={"agent": {"admin_state_up": False}})
    assert api.route("GET", NETWORKS, agent) == (200, {"networks": []})
    assert api.route("GET", NETWORKS, heir) == (200, {"networks": [{"id": network, "name": "n"}]})
    api.call("update", key=agent, body={"agent": {"admin_state_up": True}})
    assert api.route("GET", NETWORKS, agent) == (200, {"networks": []}), "it is served"


def test_a_deleted_agent_leaves_its_networks_to_others(api: Api) -> None:
    agent, network = api.agent("h1"), api.network()
    api.scheduler.schedule(network)
    heir = api.agent("h2")
    assert api.call("delete", key=agent) is None
    assert api.changes()[-2:] == [("network", network, False), ("agent", agent, True)]
    _, answer = api.route("GET", AGENTS, network)
    assert [a["id"] for a in answer["agents"]] == [heir]
    api.call("delete", key=heir)
    assert api.route("GET", AGENTS, network) == (200, {"agents": []})
    for key in (agent, DEAD):
        with pytest.raises(errors.AgentNotFound):
            api.call("delete", key=key)
    assert api.agent("h1") != agent  # one that still runs is created again by its next report


def test_manual_placement_of_networks(api: Api) -> None:
    agent, network = api.agent(), api.network()
    assert api.route("GET", NETWORKS, agent) == (200, {"networks": []})
    assert api.route("POST", NETWORKS, agent, body={"network_id": network}) == (201, None)
    assert api.route("GET", NETWORKS, agent) == (200, {"networks": [{"id": network, "name": "n"}]})
    assert api.route("GET", AGENTS, network)[1]["agents"] == [(api.call("show", key=agent) or {})["agent"]]
    with pytest.raises(errors.NetworkHostedByDHCPAgent):
        api.route("POST", NETWORKS, agent, body={"network_id": network})
    assert api.route("DELETE", NETWORK, agent, network) == (204, None)
    with pytest.raises(errors.NetworkNotHostedByDhcpAgent):
        api.route("DELETE", NETWORK, agent, network)


@pytest.mark.parametrize("body", [None, [], {}, {"network_id": 5}, {"network_id": ""}, {"network_id": None}, "x"])
def test_a_body_without_a_network_id(api: Api, body: Any) -> None:
    with pytest.raises(errors.HTTPBadRequest):
        api.route("POST", NETWORKS, api.agent(), body=body)


def test_unknown_agents_and_networks(api: Api) -> None:
    agent, network = api.agent(), api.network()
    with pytest.raises(errors.NetworkNotFound):
        api.route("POST", NETWORKS, agent, body={"network_id": DEAD})
    with pytest.raises(errors.NetworkNotFound):
        api.route("POST", NETWORKS, agent, body={"network_id": "\x00"})
    with pytest.raises(errors.AgentNotFound):
        api.route("POST", NETWORKS, DEAD, body={"network_id": network})
    with pytest.raises(errors.AgentNotFound):
        api.route("GET", NETWORKS, DEAD)
    with pytest.raises(errors.InvalidDHCPAgent):
        api.route("POST", NETWORKS, api.agent("h1", words.L3), body={"network_id": network})
    assert api.route("GET", AGENTS, DEAD) == (200, {"agents": []})


def test_scheduling_is_for_administrators(api: Api) -> None:
    agent, network = api.agent(), api.network()
    for method, path, parent in (("GET", NETWORKS, agent), ("POST", NETWORKS, agent), ("GET", AGENTS, network)):
        with pytest.raises(errors.PolicyNotAuthorized):
            api.route(method, path, parent, body={"network_id": network}, context=ALICE)
    with pytest.raises(errors.PolicyNotAuthorized):
        api.route("DELETE", NETWORK, agent, network, context=ALICE)
