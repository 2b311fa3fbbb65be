"""Policy files with errors: access is refused and the reason logged, at the rules that an error affects and at no other."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg
from oslo_policy import opts

from neutrino.server import errors, features
from neutrino.server.api.resources.network import NETWORK
from neutrino.server.context import Context
from neutrino.server.policy import authorizer as module
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.policy.files import PolicyFileError

OWN, OTHER = {"project_id": "p1"}, {"project_id": "p2"}


def caller(roles: str, project: str = "p1") -> Context:
    credentials = {"roles": roles.split(), "project_id": project}
    is_admin = "admin" in roles.split()
    return Context(project, roles=frozenset(roles.split()), is_admin=is_admin, credentials=credentials)


MEMBER, ADMIN = caller("member reader"), caller("admin member reader")


class Directory:
    """A directory with policy files, and an authorizer that looks at them before each decision."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "RELOAD_SECONDS", -1.0)
        self.path = path
        self.file = path / "policy.yaml"
        (path / "policy.d").mkdir()

    def write(self, text: str | dict[str, Any], name: str = "policy.yaml") -> None:
        (self.path / name).write_text(text if isinstance(text, str) else json.dumps(text))

    def authorizer(self, **options: Any) -> Authorizer:
        conf = cfg.ConfigOpts()
        conf([])
        opts.set_defaults(conf)  # registers the options
        given = {"policy_file": str(self.file), "policy_dirs": [str(self.path / "policy.d")], **options}
        for name, value in given.items():
            conf.set_override(name, value, "oslo_policy")
        return Authorizer(conf, features.policy_defaults())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Directory:
    return Directory(tmp_path, monkeypatch)


UNREADABLE = {
    "yaml": '"get_network": "role:reader\n',
    "list": "- get_network\n",
    "text": "get_network",
    "names": "1: role:reader\n",
    "binary": "\x00\x01",
}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("name", ["policy.yaml", "policy.d/more.yaml"])
def test_a_file_that_cannot_be_read_refuses_everything(
    here: Directory, caplog: pytest.LogCaptureFixture, kind: str, name: str
) -> None:
    here.write("")
    subject = here.authorizer()
    assert subject.allows(MEMBER, "get_network", OWN)
    assert subject.holds("context_is_admin", ADMIN.credentials)
    here.write(UNREADABLE[kind], name)
    for who in (MEMBER, ADMIN):
        for rule in ("get_network", "create_network", "no_such_rule"):
            assert not subject.allows(who, rule, OWN)
        with pytest.raises(errors.PolicyNotAuthorized):  # not an empty list
            subject.visibility(who, NETWORK, "get_network")
    assert not subject.holds("context_is_admin", ADMIN.credentials)
    assert [record.levelno for record in caplog.records] == [logging.ERROR], "logged once"
    assert name in caplog.text
    with pytest.raises(PolicyFileError, match=name):
        here.authorizer()
    here.write('"get_network": "@"', name)
    assert subject.allows(MEMBER, "get_network", OWN)
    assert subject.visibility(MEMBER, NETWORK, "get_network").all_rows


def test_a_file_that_is_removed_refuses_everything(here: Directory, caplog: pytest.LogCaptureFixture) -> None:
    here.write({"get_network": "rule:admin_only"})
    subject = here.authorizer()
    here.file.unlink()
    assert not subject.allows(ADMIN, "get_network", OWN)
    assert "policy.yaml: it has been removed" in caplog.text
    here.write("")
    assert subject.allows(MEMBER, "get_network", OWN)
    here.write({"get_network": "!"}, "policy.d/more.yaml")
    assert not subject.allows(MEMBER, "get_network", OWN)
    (here.path / "policy.d" / "more.yaml").unlink()  # the directory is still there, and has what it should have
    assert subject.allows(MEMBER, "get_network", OWN)


BROKEN = {
    "no value": None,
    "a number": 5,
    "half of a check": "role:reader or",
    "not understood": "role:reader or reader",
    "negated": "not reader",
    "a format": "role:admin or project_id:%(project_id)",
    "a field without a value": "role:admin or field:networks:shared",
    "a regular expression": "role:admin or field:networks:name=~(",
    "itself": "role:admin or rule:get_network",
    "a circle": "role:admin or rule:get_subnet",
    "another broken rule": "role:admin or rule:mine",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_rule_that_is_not_valid_refuses_what_it_governs(
    here: Directory, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    here.write("")
    subject = here.authorizer()
    here.write({"get_network": BROKEN[kind], "get_subnet": "rule:get_network", "mine": "project_id:%("})
    for who in (MEMBER, ADMIN):
        assert not subject.allows(who, "get_network", OWN)
        assert not subject.allows(who, "get_subnet", OWN), "it refers to the other"
        assert subject.allows(who, "get_router", OWN)
        with pytest.raises(errors.PolicyNotAuthorized):
            subject.visibility(who, NETWORK, "get_network")
    assert "policy.yaml: 'get_network'" in caplog.text or "policy.yaml: 'mine'" in caplog.text
    assert [fault.path for fault in subject.faults if fault.refuses] != []


def test_administrators_are_refused_too_without_new_defaults(here: Directory) -> None:
    here.write({"get_network": None})
    subject = here.authorizer(enforce_new_defaults=False)
    assert not subject.allows(ADMIN, "get_network", OWN)
    assert subject.allows(ADMIN, "create_port_binding", OWN)
    assert not here.authorizer(enforce_new_defaults=True).allows(ADMIN, "create_port_binding", OWN)


def test_what_fails_while_it_is_evaluated_is_refused(here: Directory, caplog: pytest.LogCaptureFixture) -> None:
    here.write({"get_network": "user_id:%(name)d"})  # valid for numbers
    subject = here.authorizer()
    for _ in range(3):
        assert not subject.allows(MEMBER, "get_network", {"name": "x", "project_id": "p1"})
    assert caplog.text.count("get_network could not be evaluated") <= 1


def test_the_default_rule_is_that_of_the_option(here: Directory) -> None:
    here.write({"mine": "role:auditor", "get_network": "rule:undefined", "default": "!"})
    subject = here.authorizer(policy_default_rule="mine")
    auditor = caller("auditor")
    for rule in ("get_network", "no_such_rule"):
        assert subject.allows(auditor, rule, OTHER)
        assert not subject.allows(MEMBER, rule, OWN)
    nothing = here.authorizer(policy_default_rule="gone")
    for rule in ("get_network", "no_such_rule"):
        assert not any(nothing.allows(who, rule, OWN) for who in (auditor, MEMBER, ADMIN))
    assert "'gone'" in " ".join(map(str, nothing.faults))


def test_a_decision_of_the_default_rule_is_not_reused_for_other_objects(here: Directory) -> None:
    here.write({"get_network": "rule:undefined"})
    subject = here.authorizer()
    assert subject.allows(MEMBER, "get_network", OWN)
    assert not subject.allows(MEMBER, "get_network", OTHER)
    assert not subject.visibility(MEMBER, NETWORK, "get_network").all_rows


def test_what_has_no_effect_is_named(here: Directory) -> None:
    here.write(
        {
            "create_netwrok": "role:member",
            "get_network": "rule:undefined or rol:admin",
            "get_subnet": "rule:mine or 'x':%(name)s or system_scope:all",
            "mine": "role:auditor",
            "get_networks_tags": "role:auditor",
        }
    )
    subject = here.authorizer()
    found = {(fault.rule, fault.refuses) for fault in subject.faults}
    assert found == {("create_netwrok", False), ("get_network", False)}
    texts = " ".join(map(str, subject.faults))
    assert all(word in texts for word in ("create_netwrok", "'undefined'", "'rol'"))
    missing = here.authorizer(policy_file=str(here.path / "other.yaml"))
    assert "other.yaml" in " ".join(map(str, missing.faults))


def test_an_override_by_an_earlier_name_applies(here: Directory) -> None:
    here.write({"get_networks_tags": "role:auditor", "get_subnets_tags": "!", "get_subnet:tags": "@"})
    subject = here.authorizer()
    assert subject.allows(caller("auditor"), "get_network:tags", OTHER)
    assert not subject.allows(MEMBER, "get_network:tags", OWN)
    assert subject.allows(MEMBER, "get_subnet:tags", OTHER), "the rule by its name now is what counts"


@pytest.mark.parametrize("rule", ["get_network", "update_network", "create_ipsec_site_connection"])
def test_an_override_replaces_the_deprecated_rule_too(here: Directory, rule: str) -> None:
    here.write("")
    anyone = caller("creator")
    assert here.authorizer(enforce_new_defaults=False).allows(anyone, rule, OWN)
    assert not here.authorizer(enforce_new_defaults=True).allows(anyone, rule, OWN)
    here.write({rule: "role:auditor"})
    assert not here.authorizer(enforce_new_defaults=False).allows(anyone, rule, OWN)
