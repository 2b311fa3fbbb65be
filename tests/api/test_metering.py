"""Metering labels and rules: Neutron's attributes, policies, refusals; sharing; concurrent rules."""

from __future__ import annotations

import pytest

from neutrino.model.objects import Object
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.races import before_next_transaction

LABELS, RULES = "/metering/metering-labels", "/metering/metering-label-rules"


def test_a_label_has_neutrons_attributes(api: Api) -> None:
    admin = api.as_admin()
    label = admin.make("metering_label", name="m")
    key = label["id"]
    wanted = {"id": key, "name": "m", "description": "", "shared": False, "project_id": api.project}
    assert label == {**wanted, "tenant_id": api.project}
    assert admin.show("metering_label", key) == label
    assert admin.all(LABELS, {"name": "m"}) == [label]
    admin.put(f"{LABELS}/{key}", {"metering_label": {"name": "n"}}).expect(405)
    admin.delete(f"{LABELS}/{key}").expect(204)
    admin.get(f"{LABELS}/{key}").refused(404, "MeteringLabelNotFound")
    admin.delete(f"{LABELS}/{key}").refused(404, "MeteringLabelNotFound")


def test_labels_of_other_projects_and_shared_ones(api: Api) -> None:
    admin, other = api.as_admin(), api.as_stranger().project
    given = {"metering_labels": [{"name": "one", "project_id": other}, {"name": "all", "shared": True}]}
    one, every = admin.post(LABELS, given).expect(201).body["metering_labels"]
    assert (one["project_id"], one["shared"]) == (other, False)
    assert (every["project_id"], every["shared"]) == (api.project, True)
    assert {each["id"] for each in admin.all(LABELS, {"shared": True})} >= {every["id"]}


def test_only_administrators_meter(api: Api) -> None:
    label = api.as_admin().make("metering_label")
    api.post(LABELS, {"metering_label": {"name": "m"}}).refused(403, "PolicyNotAuthorized")
    stranger = api.as_stranger()
    assert label["id"] not in {each["id"] for each in stranger.all(LABELS)}
    stranger.get(f"{LABELS}/{label['id']}").refused(404, "MeteringLabelNotFound")
    stranger.delete(f"{LABELS}/{label['id']}").refused(404, "MeteringLabelNotFound")
    api.delete(f"{LABELS}/{label['id']}").refused(403, "PolicyNotAuthorized")
    body = {"metering_label_id": label["id"], "direction": "ingress", "remote_ip_prefix": "10.0.0.0/24"}
    api.post(RULES, {"metering_label_rule": body}).refused(403, "PolicyNotAuthorized")


def test_labels_of_the_own_project_and_shared_ones_are_seen(api: Api) -> None:
    admin, stranger = api.as_admin(), api.as_stranger()
    own, shared = admin.make("metering_label", name="own"), admin.make("metering_label", name="all", shared=True)
    assert {own["id"], shared["id"]} <= {each["id"] for each in api.as_reader().all(LABELS)}
    seen = {each["id"] for each in stranger.all(LABELS)}
    assert (shared["id"] in seen, own["id"] in seen) == (True, False)
    assert stranger.show("metering_label", shared["id"]) == shared
    stranger.delete(f"{LABELS}/{shared['id']}").refused(403, "PolicyNotAuthorized")


def test_a_rule_has_neutrons_attributes_and_goes_with_its_label(api: Api) -> None:
    admin = api.as_admin()
    label = admin.make("metering_label")
    given: Object = {"metering_label_id": label["id"], "direction": "ingress", "remote_ip_prefix": "10.0.0.0/24"}
    rule = admin.make("metering_label_rule", **given)
    assert rule == {
        "id": rule["id"],
        **given,
        "excluded": False,
        "source_ip_prefix": None,
        "destination_ip_prefix": None,
    }
    assert admin.show("metering_label_rule", rule["id"]) == rule
    assert admin.all(RULES, {"metering_label_id": label["id"]}) == [rule]
    admin.delete(f"{LABELS}/{label['id']}").expect(204)
    admin.get(f"{RULES}/{rule['id']}").refused(404, "MeteringLabelRuleNotFound")


@pytest.mark.every_database
def test_remote_prefixes_of_a_label_do_not_overlap(api: Api) -> None:
    admin = api.as_admin()
    label, other = (admin.make("metering_label")["id"] for _ in range(2))
    given = {"metering_label_id": label, "direction": "ingress", "remote_ip_prefix": "10.0.0.0/24"}
    rule = admin.make("metering_label_rule", **given)
    overlapping = {**given, "remote_ip_prefix": "10.0.0.0/25"}
    admin.post(RULES, {"metering_label_rule": overlapping}).refused(409, "MeteringLabelRuleOverlaps")
    for differs in ({"direction": "egress"}, {"excluded": True}, {"metering_label_id": other}):
        admin.make("metering_label_rule", **{**overlapping, **differs})
    admin.make("metering_label_rule", **{**given, "remote_ip_prefix": "2001:db8::/32"})
    # As in Neutron, other prefixes may overlap.
    for _ in range(2):
        admin.make("metering_label_rule", **{**given, "remote_ip_prefix": None, "source_ip_prefix": "10.0.0.0/24"})
    admin.delete(f"{RULES}/{rule['id']}").expect(204)
    admin.make("metering_label_rule", **overlapping)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"source_ip_prefix": "192.0.2.7"}, {"source_ip_prefix": "192.0.2.7/32"}),
        ({"destination_ip_prefix": "192.0.2.7/24"}, {"destination_ip_prefix": "192.0.2.7/24"}),
        ({"source_ip_prefix": "fd00::/64", "destination_ip_prefix": "::/0"}, {"destination_ip_prefix": "::/0"}),
        ({"remote_ip_prefix": "0.0.0.0/0", "excluded": "true"}, {"excluded": True}),
    ],
)
def test_values_that_a_rule_takes(api: Api, given: Object, shown: Object) -> None:
    admin = api.as_admin()
    label = admin.make("metering_label")
    rule = admin.make("metering_label_rule", metering_label_id=label["id"], direction="egress", **given)
    assert {name: rule[name] for name in shown} == shown


@pytest.mark.parametrize(
    ("given", "attribute"),
    [
        ({"source_ip_prefix": "10.0.0.0/8", "destination_ip_prefix": "::/0"}, "destination_ip_prefix"),
        ({"remote_ip_prefix": "10.0.0.0/33"}, "remote_ip_prefix"),
        ({"source_ip_prefix": "fe80::1%eth0"}, "source_ip_prefix"),
        ({"source_ip_prefix": 7}, "source_ip_prefix"),
        ({"remote_ip_prefix": "10.0.0.0/8", "direction": "both"}, "direction"),
        ({"remote_ip_prefix": "10.0.0.0/8", "excluded": "maybe"}, "excluded"),
        ({"remote_ip_prefix": "10.0.0.0/8", "metering_label_id": "x"}, "metering_label_id"),
    ],
)
def test_values_that_a_rule_refuses(api: Api, given: Object, attribute: str) -> None:
    admin = api.as_admin()
    label = admin.make("metering_label")
    body = {"metering_label_rule": {"metering_label_id": label["id"], "direction": "ingress", **given}}
    assert attribute in admin.post(RULES, body).refused(400).message


@pytest.mark.parametrize("other", [{}, {"source_ip_prefix": "::/0"}, {"destination_ip_prefix": "10.0.0.0/8"}])
def test_a_rule_has_a_remote_prefix_or_others(api: Api, other: Object) -> None:
    admin = api.as_admin()
    rule: Object = {"metering_label_id": admin.make("metering_label")["id"], "direction": "ingress", **other}
    if other:
        rule["remote_ip_prefix"] = "10.0.0.0/8"
    refused = admin.post(RULES, {"metering_label_rule": rule}).refused(400, "Invalid")
    assert "remote_ip_prefix" in refused.message


def test_a_rule_needs_its_label(api: Api) -> None:
    body = {
        "metering_label_id": "6a4a5b0e-0000-4000-8000-000000000000",
        "direction": "ingress",
        "remote_ip_prefix": "10.0.0.0/24",
    }
    api.as_admin().post(RULES, {"metering_label_rule": body}).refused(404, "MeteringLabelNotFound")


@pytest.mark.every_database
def test_a_bulk_request_with_one_refused_rule_makes_none(api: Api) -> None:
    admin = api.as_admin()
    label = admin.make("metering_label")["id"]
    common = {"metering_label_id": label, "direction": "egress"}
    prefixes = ("10.0.0.0/24", "10.0.1.0/24", "10.0.0.0/16")
    body = {"metering_label_rules": [{**common, "remote_ip_prefix": each} for each in prefixes]}
    admin.post(RULES, body).refused(409, "MeteringLabelRuleOverlaps")
    assert admin.all(RULES, {"metering_label_id": label}) == []


@pytest.mark.every_database
def test_a_rule_that_another_request_overlaps_meanwhile(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = api.as_admin()
    given = {"metering_label_id": admin.make("metering_label")["id"], "direction": "egress"}
    first, second = ({**given, "remote_ip_prefix": prefix} for prefix in ("10.0.0.0/24", "10.0.0.0/16"))
    before_next_transaction(server, monkeypatch, lambda: admin.make("metering_label_rule", **first))
    admin.post(RULES, {"metering_label_rule": second}).refused(409, "MeteringLabelRuleOverlaps")


@pytest.mark.every_database
def test_a_rule_whose_label_is_deleted_meanwhile(api: Api, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = api.as_admin()
    label = admin.make("metering_label")["id"]
    before_next_transaction(server, monkeypatch, lambda: admin.delete(f"{LABELS}/{label}").expect(204))
    body = {"metering_label_id": label, "direction": "egress", "remote_ip_prefix": "10.0.0.0/24"}
    admin.post(RULES, {"metering_label_rule": body}).refused(404, "MeteringLabelNotFound")
