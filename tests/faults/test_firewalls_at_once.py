"""Concurrent writers of firewalls: a port is in one group, no rule of a policy is lost, no deadlock fails a request."""

from __future__ import annotations

import random
from typing import Any

from neutrino.server.main import Server
from tests.api.client import Api, Response
from tests.api.firewalls import instance, policy_with
from tests.faults import integrity
from tests.faults.test_at_once import at_once, statuses

GROUPS, POLICIES, RULES = "/fwaas/firewall_groups", "/fwaas/firewall_policies", "/fwaas/firewall_rules"


def test_one_of_several_groups_gets_a_port(api: Api, server: Server) -> None:
    body = {"firewall_group": {"ports": [instance(api)["id"]]}}
    assert statuses(at_once(lambda _: api.post(GROUPS, body))) == {201: 1, 409: 7}
    integrity.check(server.db)


def test_rules_inserted_at_once_are_all_in_the_policy(api: Api, server: Server) -> None:
    policy = policy_with(api)["id"]
    rules = [api.make("firewall_rule")["id"] for _ in range(8)]
    path = f"{POLICIES}/{policy}"
    answers = at_once(lambda i: api.put(f"{path}/insert_rule", {"firewall_rule_id": rules[i]}))
    assert statuses(answers) == {200: 8}
    assert sorted(api.show("firewall_policy", policy)["firewall_rules"]) == sorted(rules)
    answers = at_once(lambda i: api.put(f"{path}/remove_rule", {"firewall_rule_id": rules[i // 2]}))
    assert statuses(answers) == {200: 4, 400: 4}
    integrity.check(server.db)


def test_rules_policies_groups_and_ports_changed_at_once(api: Api, server: Server) -> None:
    rules = [api.make("firewall_rule")["id"] for _ in range(4)]
    policies = [api.make("firewall_policy", firewall_rules=rules)["id"] for _ in range(2)]
    ports = [instance(api)["id"] for _ in range(3)]
    group = api.make("firewall_group", ingress_firewall_policy_id=policies[0], ports=ports)["id"]

    def act(number: int) -> Response:
        chance = random.Random(number)
        changes: list[tuple[str, Any]] = [
            (f"{RULES}/{chance.choice(rules)}", {"firewall_rule": {"action": chance.choice(["allow", "deny"])}}),
            (
                f"{POLICIES}/{chance.choice(policies)}",
                {"firewall_policy": {"firewall_rules": chance.sample(rules, chance.randrange(5))}},
            ),
            (f"{GROUPS}/{group}", {"firewall_group": {"egress_firewall_policy_id": chance.choice([*policies, None])}}),
            (f"{GROUPS}/{group}", {"firewall_group": {"ports": chance.sample(ports, 2)}}),
        ]
        if number == 30:
            return api.as_admin().delete(f"/ports/{ports[0]}")
        return api.put(*chance.choice(changes))

    assert set(statuses(at_once(act, 60))) <= {200, 204, 404}
    assert ports[0] not in api.show("firewall_group", group)["ports"]
    integrity.check(server.db)
