"""Requests on firewalls at the same time: one that loses a race is decided again, and answered as if it came later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.firewall.tables import group_ports
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.firewalls import instance, interface, policy_with
from tests.api.l3 import inside
from tests.api.races import before_next_transaction, before_next_write
from tests.support.databases import DATABASES

GROUPS, POLICIES, RULES = "/fwaas/firewall_groups", "/fwaas/firewall_policies", "/fwaas/firewall_rules"
# How many transactions wait for a lock of another one. SQLite has one writer.
WAITING = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'",
    "mariadb": "SELECT count(*) FROM information_schema.innodb_trx x JOIN information_schema.processlist p"
    " ON p.id = x.trx_mysql_thread_id WHERE p.db = database() AND x.trx_state = 'LOCK WAIT'",
}
Meanwhile = Callable[[Callable[[], object]], None]


@pytest.fixture
def meanwhile(server: Server, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Run something between the decision and the transaction of the next write."""
    return lambda action: before_next_transaction(server, monkeypatch, action)


def test_a_port_that_another_group_has_got(api: Api, meanwhile: Meanwhile) -> None:
    port, group = instance(api)["id"], api.make("firewall_group")["id"]
    meanwhile(lambda: api.change("firewall_group", group, ports=[port]))
    api.post(GROUPS, {"firewall_group": {"ports": [port]}}).refused(409, "FirewallGroupPortInUse")
    assert len(api.all(GROUPS)) == 2  # with the default group


def test_a_port_that_is_deleted(api: Api, meanwhile: Meanwhile) -> None:
    port, group = instance(api)["id"], api.make("firewall_group")["id"]
    meanwhile(lambda: api.as_admin().delete(f"/ports/{port}").expect(204))
    api.put(f"{GROUPS}/{group}", {"firewall_group": {"ports": [port]}}).refused(404, "PortNotFound")


def test_a_group_that_gets_a_port_is_not_deleted(api: Api, meanwhile: Meanwhile) -> None:
    port, group = instance(api)["id"], api.make("firewall_group")["id"]
    meanwhile(lambda: api.change("firewall_group", group, ports=[port]))
    api.delete(f"{GROUPS}/{group}").refused(409, "FirewallGroupInUse")


@pytest.mark.parametrize("database", DATABASES[1:], indirect=True, scope="module")
@pytest.mark.parametrize("delete", ["log", "interface"])
def test_a_log_that_is_deleted_while_its_port_joins_another_group(
    server: Server, database: str, api: Api, delete: str
) -> None:
    """The hosts of that group have got the log with it, or are about to: the deletion logs the group too."""
    admin, port = api.as_admin(), interface(api)
    router = admin.show("port", port)["device_id"]
    api.make("firewall_group", ports=[port])
    other = api.make("firewall_group")["id"]
    log = admin.make("log", resource_type="firewall_group", target_id=port)["id"]

    def end() -> None:
        if delete == "log":
            admin.delete(f"/log/logs/{log}").expect(204)
        else:
            admin.put(f"/routers/{router}/remove_router_interface", {"port_id": port}).expect(200)

    changes = sa.select(t.changes.c.id).where(t.changes.c.kind == "firewall_group", t.changes.c.object_id == other)
    ended = threading.Thread(target=end)
    with server.db.transaction() as tx:
        tx.execute(sa.delete(group_ports).where(group_ports.c.port_id == port))
        tx.execute(sa.insert(group_ports), {"port_id": port, "firewall_group_id": other})
        with server.db.read() as connection:
            before = connection.execute(changes).all()
            ended.start()
            while ended.is_alive() and not connection.exec_driver_sql(WAITING[database]).scalar():
                ended.join(0.2)  # MariaDB shows what it found last if it is asked within 0.1 s
    ended.join()
    with server.db.read() as connection:
        assert len(connection.execute(changes).all()) > len(before)


def test_a_rule_that_a_policy_gets_is_not_deleted(api: Api, meanwhile: Meanwhile) -> None:
    rule, policy = api.make("firewall_rule")["id"], policy_with(api)["id"]
    meanwhile(lambda: api.put(f"{POLICIES}/{policy}/insert_rule", {"firewall_rule_id": rule}).expect(200))
    api.delete(f"{RULES}/{rule}").refused(409, "FirewallRuleInUse")
    assert api.show("firewall_policy", policy)["firewall_rules"] == [rule]


def test_a_rule_that_is_deleted_is_not_inserted(api: Api, meanwhile: Meanwhile) -> None:
    rule, policy = api.make("firewall_rule")["id"], policy_with(api)["id"]
    meanwhile(lambda: api.delete(f"{RULES}/{rule}").expect(204))
    api.put(f"{POLICIES}/{policy}/insert_rule", {"firewall_rule_id": rule}).refused(404, "FirewallRuleNotFound")
    assert api.show("firewall_policy", policy)["firewall_rules"] == []


def test_a_policy_that_a_group_gets_is_not_deleted(api: Api, meanwhile: Meanwhile) -> None:
    policy, group = policy_with(api)["id"], api.make("firewall_group")["id"]
    meanwhile(lambda: api.change("firewall_group", group, ingress_firewall_policy_id=policy))
    api.delete(f"{POLICIES}/{policy}").refused(409, "FirewallPolicyInUse")


def test_two_rules_inserted_at_once_are_both_there(api: Api, meanwhile: Meanwhile) -> None:
    a, b, policy = api.make("firewall_rule")["id"], api.make("firewall_rule")["id"], policy_with(api)["id"]
    path = f"{POLICIES}/{policy}/insert_rule"
    meanwhile(lambda: api.put(path, {"firewall_rule_id": a}).expect(200))
    assert api.put(path, {"firewall_rule_id": b}).expect(200).body["firewall_rules"] == [b, a]


def test_a_default_group_that_gets_a_port_by_itself_is_not_deleted(
    another_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a port that loses the race joins the group that is created anew."""
    server = another_server({"DEFAULT": {"auto_associate_default_firewall_group": "true"}})
    switch(server, "fw1")
    api = Api(server.app)
    admin = api.as_admin()
    network, _ = inside(api)
    a, b = (admin.port(network, device_owner="compute:nova", project_id=api.project)["id"] for _ in range(2))
    (group,) = api.all(GROUPS)
    path = f"{GROUPS}/{group['id']}"
    before_next_transaction(server, monkeypatch, lambda: admin.change("port", a, binding__host_id="fw1"))
    admin.delete(path).refused(409, "FirewallGroupInUse")
    assert api.show("firewall_group", group["id"])["ports"] == [a]
    api.change("firewall_group", group["id"], ports=[])
    before_next_write(server, monkeypatch, lambda: admin.delete(path).expect(204))
    admin.change("port", b, binding__host_id="fw1")
    (again,) = api.all(GROUPS)
    assert (again["id"] != group["id"], again["ports"]) == (True, [b])


def test_a_default_group_is_created_once(api: Api) -> None:
    answers: list[Any] = []
    together = threading.Barrier(4)

    def ask() -> None:
        together.wait()
        answers.append(api.all(GROUPS))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert len({group["id"] for groups in answers for group in groups}) == 1
    assert len(api.all(POLICIES, {"project_id": api.project})) == 2
