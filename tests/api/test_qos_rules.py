"""QoS rules: each type below its policy and by its own id, rules that contradict each other, rule types."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.conftest import Settings
from tests.api.qos import DEAD, RULES, delete_rule, policy, post_rule, put_rule, rule
from tests.faults import integrity

ALIASED = [type_ for type_ in RULES if type_ != "packet_rate_limit"]
CHANGES = {
    "bandwidth_limit": {"max_kbps": 20_000, "direction": "ingress"},
    "dscp_marking": {"dscp_mark": 10},
    "minimum_bandwidth": {"min_kbps": 600},
    "packet_rate_limit": {"max_kpps": 11},
    "minimum_packet_rate": {"min_kpps": 2, "direction": "any"},
}


@pytest.mark.parametrize("type_", RULES)
def test_a_rule_from_creation_to_deletion(api: Api, admin: Api, type_: str) -> None:
    gold = policy(admin)["id"]
    made = rule(admin, gold, type_)
    key, path = made["id"], f"/qos/policies/{gold}/{type_}_rules"
    assert made == {**RULES[type_], "id": key}
    assert api.get(f"{path}/{key}").expect(200).body == {f"{type_}_rule": made}
    assert api.get(path).expect(200).body == {f"{type_}_rules": [made]}
    assert api.show("policy", gold)["rules"] == [{**made, "qos_policy_id": gold, "type": type_}]
    changed = put_rule(admin, gold, type_, key, **CHANGES[type_]).expect(200).body[f"{type_}_rule"]
    assert changed == {**made, **CHANGES[type_]}
    assert api.get(path, CHANGES[type_]).body == {f"{type_}_rules": [changed]}
    assert api.show("policy", gold)["rules"] == [{**changed, "qos_policy_id": gold, "type": type_}]
    assert api.show("policy", gold)["revision_number"] == 2
    delete_rule(admin, gold, type_, key).expect(204)
    delete_rule(admin, gold, type_, key).refused(404, "QosRuleNotFound")
    assert api.show("policy", gold)["rules"] == []


@pytest.mark.parametrize("type_", ALIASED)
def test_a_rule_by_its_own_id(api: Api, admin: Api, type_: str) -> None:
    gold = policy(admin)["id"]
    made = rule(admin, gold, type_)
    name, path = f"alias_{type_}_rule", f"/qos/alias_{type_}_rules/{made['id']}"
    assert api.get(path).expect(200).body == {name: made}
    changed = admin.put(path, {name: CHANGES[type_]}).expect(200).body
    assert changed == {name: {**made, **CHANGES[type_]}}
    api.put(path, {name: CHANGES[type_]}).refused(403, "PolicyNotAuthorized")
    api.as_stranger().get(path).refused(404, "QosRuleNotFound")
    other = next(each for each in ALIASED if each != type_)
    admin.get(f"/qos/alias_{other}_rules/{made['id']}").refused(404, "QosRuleNotFound")
    admin.delete(path).expect(204)
    admin.get(path).refused(404, "QosRuleNotFound")
    assert api.show("policy", gold)["rules"] == []


def test_rules_of_another_policy_or_type_are_not_found(admin: Api) -> None:
    gold, silver = policy(admin)["id"], policy(admin, name="silver")["id"]
    key = rule(admin, gold, "bandwidth_limit")["id"]
    for path in (f"{silver}/bandwidth_limit_rules", f"{gold}/minimum_bandwidth_rules"):
        admin.get(f"/qos/policies/{path}/{key}").refused(404, "QosRuleNotFound")
        admin.delete(f"/qos/policies/{path}/{key}").refused(404, "QosRuleNotFound")
    post_rule(admin, DEAD, "dscp_marking").refused(404, "QosPolicyNotFound")
    admin.get(f"/qos/policies/{DEAD}/dscp_marking_rules").refused(404, "QosPolicyNotFound")


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("bandwidth_limit", {"max_kbps": -1}),
        ("bandwidth_limit", {"max_kbps": 2**31}),
        ("bandwidth_limit", {"direction": "any"}),
        ("packet_rate_limit", {"direction": "any"}),
        ("dscp_marking", {"dscp_mark": 3}),
        ("minimum_packet_rate", {"direction": "both"}),
    ],
)
def test_bad_values_are_refused_by_name(admin: Api, type_: str, values: dict[str, object]) -> None:
    refused = post_rule(admin, policy(admin)["id"], type_, **values).refused(400, "HTTPBadRequest")
    assert next(iter(values)) in refused.message


# --- rules that contradict each other ---------------------------------------------------------------------------------


def test_one_rule_of_each_type_and_direction(admin: Api) -> None:
    gold = policy(admin)["id"]
    for type_ in RULES:
        made = rule(admin, gold, type_)
        refused = post_rule(admin, gold, type_).refused(409, "QoSRulesConflict")
        assert made["id"] in refused.message
    ingress = rule(admin, gold, "bandwidth_limit", direction="ingress")
    put_rule(admin, gold, "bandwidth_limit", ingress["id"], direction="egress").refused(409, "QoSRulesConflict")
    put_rule(admin, gold, "bandwidth_limit", ingress["id"], direction="ingress").expect(200)


def test_a_minimum_is_not_above_the_limit_of_its_direction(admin: Api) -> None:
    gold = policy(admin)["id"]
    limit = rule(admin, gold, "bandwidth_limit", max_kbps=1000)
    refused = post_rule(admin, gold, "minimum_bandwidth", min_kbps=1001).refused(409, "QoSRuleParameterConflict")
    assert "1001" in refused.message
    rule(admin, gold, "minimum_bandwidth", min_kbps=1001, direction="ingress")
    rule(admin, gold, "minimum_bandwidth", min_kbps=1000)
    put_rule(admin, gold, "bandwidth_limit", limit["id"], max_kbps=999).refused(409, "QoSRuleParameterConflict")
    post_rule(admin, gold, "bandwidth_limit", max_kbps=1000, direction="ingress").refused(
        409, "QoSRuleParameterConflict"
    )


def test_a_minimum_of_packets_has_a_direction_or_is_for_both(admin: Api) -> None:
    gold = policy(admin)["id"]
    first = rule(admin, gold, "minimum_packet_rate", direction="any")
    post_rule(admin, gold, "minimum_packet_rate").refused(409, "QoSRuleParameterConflict")
    put_rule(admin, gold, "minimum_packet_rate", first["id"], direction="ingress").expect(200)
    rule(admin, gold, "minimum_packet_rate")
    post_rule(admin, gold, "minimum_packet_rate", direction="any").refused(409, "QoSRuleParameterConflict")


def test_rules_that_are_added_at_once(server: Server, admin: Api) -> None:
    """All that fit together are stored, in both places; of two that contradict each other, one."""
    gold = policy(admin)["id"]
    wanted = [(type_, "egress") for type_ in RULES if type_ != "dscp_marking"] * 2
    wanted += [(type_, "ingress") for type_ in ("bandwidth_limit", "packet_rate_limit")]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda each: post_rule(admin, gold, each[0], direction=each[1]), wanted))
    assert sorted(answer.status for answer in answers) == [201] * 6 + [409] * 4
    shown = admin.show("policy", gold)
    assert (len(shown["rules"]), shown["revision_number"]) == (6, 6)
    listed = [one for type_ in RULES for one in admin.all(f"/qos/policies/{gold}/{type_}_rules")]
    assert {one["id"] for one in listed} == {one["id"] for one in shown["rules"]}
    integrity.check(server.db)


# --- rule types -------------------------------------------------------------------------------------------------------


def types(api: Api, **query: object) -> set[str]:
    return {one["type"] for one in api.get("/qos/rule-types", query).expect(200).body["rule_types"]}


def test_rule_types_are_those_that_all_drivers_enforce(api: Api, admin: Api) -> None:
    assert types(api) == {"bandwidth_limit", "minimum_bandwidth"}  # those of SR-IOV
    assert types(api, all_supported=True) == types(api, all_rules=True) == set(RULES)
    shown = admin.get("/qos/rule-types/bandwidth_limit").expect(200).body["rule_type"]
    assert shown["type"] == "bandwidth_limit"
    by_driver = {each["name"]: each["supported_parameters"] for each in shown["drivers"]}
    direction = {"parameter_name": "direction", "parameter_type": "choices"}
    assert {**direction, "parameter_values": ["ingress", "egress"]} in by_driver["openvswitch"]
    assert {**direction, "parameter_values": ["egress"]} in by_driver["sriovnicswitch"]
    amount = {"parameter_name": "max_kbps", "parameter_type": "range"}
    assert {**amount, "parameter_values": {"start": 0, "end": 2**31 - 1}} in by_driver["openvswitch"]
    api.get("/qos/rule-types/bandwidth_limit").refused(403, "NotAuthorized")
    admin.get("/qos/rule-types/other").expect(404)


def test_pages_of_rule_types(api: Api) -> None:
    path = "/qos/rule-types"
    listed = [one["type"] for one in api.get(path, {"all_rules": True}).body["rule_types"]]
    assert set(listed) == set(RULES)

    def page(**query: object) -> tuple[list[str], set[str]]:
        body = api.get(path, {"all_rules": True, "limit": 2, **query}).expect(200).body
        return [one["type"] for one in body["rule_types"]], {each["rel"] for each in body["rule_types_links"]}

    assert page() == (listed[:2], {"next", "previous"})
    assert page(marker=listed[1]) == (listed[2:4], {"next", "previous"})
    assert page(marker=listed[3]) == (listed[4:], {"previous"})
    assert page(marker=listed[4], page_reverse=True)[0] == listed[2:4]
    assert page(marker=listed[0], page_reverse=True)[0] == []
    assert page(page_reverse=True)[0] == listed[3:]
    assert page(marker="other")[0] == []
    assert types(api, all_rules=True, marker=listed[2]) == set(listed[3:])


def test_drivers_that_enforce_nothing(another_server: Callable[..., Server]) -> None:
    settings: Settings = {"ml2": {"mechanism_drivers": "l2population"}}
    server: Server = another_server(settings)
    api = Api(server.app)
    assert types(api) == types(api, all_supported=True) == set()
    assert types(api, all_rules=True) == set(RULES)


def test_without_the_plugin(another_server: Callable[..., Server]) -> None:
    """Attributes are there, as without the plugin in Neutron; no policy exists that they could have."""
    server: Server = another_server({"DEFAULT": {"service_plugins": "router"}})
    api = Api(server.app)
    api.get("/qos/policies").expect(404)
    assert not [one for one in api.all("/extensions") if one["alias"].startswith("qos")]
    network = api.network()
    assert network["qos_policy_id"] is None
    assert api.port(network)["qos_policy_id"] is None
    api.post("/networks", {"network": {"qos_policy_id": DEAD}}).refused(404, "QosPolicyNotFound")
