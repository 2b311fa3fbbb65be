"""Validation and identity of security group rules: the types of the API and the pure checks together."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.server import errors
from neutrino.server.api.resources.security_group import SECURITY_GROUP_RULE
from neutrino.server.api.stages.body import items_to_create
from neutrino.server.context import Context
from neutrino.server.securitygroups.checks import Rule, check_bulk, check_rule, refuse_repeated
from neutrino.server.securitygroups.default_rules import first_rules

GROUP = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
EMPTY = dict.fromkeys(("protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "remote_address_group_id"))
V6 = {"ethertype": "IPv6"}


def parsed(given: dict[str, Any]) -> dict[str, Any]:
    one = {"security_group_id": GROUP, "direction": "ingress", **given}
    items, _ = items_to_create(SECURITY_GROUP_RULE, {"security_group_rule": one}, Context("p"))
    return items[0].values


def rule(**given: Any) -> Rule:
    return check_rule(parsed(given))


def ports(low: int | None, high: int | None) -> dict[str, Any]:
    return {"port_range_min": low, "port_range_max": high}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, None),
        ({"protocol": "any"}, None),
        ({"protocol": "ANY"}, None),
        ({"protocol": "tcp"}, "tcp"),
        ({"protocol": "TCP"}, "tcp"),
        ({"protocol": 6}, "6"),
        ({"protocol": "47"}, "47"),
        ({"protocol": 0}, "0"),
        ({"protocol": "255"}, "255"),
        ({"protocol": "icmp"}, "icmp"),
        ({"protocol": "1"}, "1"),
        ({"protocol": "icmp", **V6}, "ipv6-icmp"),
        ({"protocol": "icmpv6", **V6}, "ipv6-icmp"),
        ({"protocol": "ipv6-icmp", **V6}, "ipv6-icmp"),
        ({"protocol": "1", **V6}, "58"),
        ({"protocol": 58, **V6}, "58"),
        ({"protocol": "ipv6-frag", **V6}, "ipv6-frag"),
    ],
)
def test_protocol_is_shown(given: dict[str, Any], shown: str | None) -> None:
    assert rule(**given).protocol == shown


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"protocol": "tcp", **ports(22, 22)}, (22, 22)),
        ({"protocol": "udp", **ports(1, 65534)}, (1, 65534)),
        ({"protocol": "tcp", **ports(1, 65535)}, (None, None)),
        ({**ports(1, 65535)}, (None, None)),
        ({"protocol": 132, **ports(5, 6)}, (5, 6)),
        ({"protocol": "dccp", **ports(5, 6)}, (5, 6)),
        ({"protocol": "udplite", **ports(5, 6)}, (5, 6)),
        ({"protocol": "tcp", "port_range_min": "22", "port_range_max": "23"}, (22, 23)),
        ({"protocol": "icmp", **ports(8, 0)}, (8, 0)),
        ({"protocol": "icmp", **ports(0, None)}, (0, None)),
        ({"protocol": "icmp", **ports(255, 255)}, (255, 255)),
        ({"protocol": "1", **ports(8, None)}, (8, None)),
        ({"protocol": "ipv6-icmp", **V6, **ports(128, None)}, (128, None)),
        ({"protocol": "icmp", **V6, **ports(128, 0)}, (128, 0)),
        ({"protocol": "58", **V6, **ports(128, None)}, (128, None)),
        ({"protocol": "gre"}, (None, None)),
    ],
)
def test_ports_are_shown(given: dict[str, Any], shown: tuple[int | None, int | None]) -> None:
    found = rule(**given)
    assert (found.port_range_min, found.port_range_max) == shown


@pytest.mark.parametrize(
    ("given", "prefix", "network"),
    [
        ({"remote_ip_prefix": "10.0.0.0/8"}, "10.0.0.0/8", "10.0.0.0/8"),
        ({"remote_ip_prefix": "10.0.0.5/8"}, "10.0.0.5/8", "10.0.0.0/8"),
        ({"remote_ip_prefix": "10.0.0.5"}, "10.0.0.5/32", "10.0.0.5/32"),
        ({"remote_ip_prefix": "10.0.0.0/255.0.0.0"}, "10.0.0.0/8", "10.0.0.0/8"),
        ({"remote_ip_prefix": "0.0.0.0/0"}, "0.0.0.0/0", "0.0.0.0/0"),
        ({"remote_ip_prefix": "2001:db8::5/64", **V6}, "2001:db8::5/64", "2001:db8::/64"),
        ({"remote_ip_prefix": "2001:DB8:0::5", **V6}, "2001:db8::5/128", "2001:db8::5/128"),
        ({"remote_ip_prefix": ""}, None, None),
        ({"remote_ip_prefix": None}, None, None),
    ],
)
def test_prefix_is_shown(given: dict[str, Any], prefix: str | None, network: str | None) -> None:
    found = rule(**given)
    assert (found.remote_ip_prefix, found.normalized_cidr) == (prefix, network)


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"protocol": "tcp", **ports(80, 79)}, errors.SecurityGroupInvalidPortRange),
        ({"protocol": "tcp", **ports(80, None)}, errors.SecurityGroupInvalidPortRange),
        ({"protocol": "6", **ports(None, 80)}, errors.SecurityGroupInvalidPortRange),
        ({"protocol": "tcp", **ports(0, 80)}, errors.SecurityGroupInvalidPortValue),
        ({"protocol": "tcp", **ports(None, 0)}, errors.SecurityGroupInvalidPortValue),
        ({"protocol": "tcp", **ports(1, 65536)}, errors.SecurityGroupInvalidPortValue),
        ({"protocol": "tcp", **ports(-1, 2)}, errors.SecurityGroupInvalidPortValue),
        ({**ports(1, 2)}, errors.SecurityGroupProtocolRequiredWithPorts),
        ({"protocol": "any", **ports(1, 2)}, errors.SecurityGroupProtocolRequiredWithPorts),
        ({"protocol": "gre", **ports(1, 2)}, errors.SecurityGroupInvalidProtocolForPort),
        ({"protocol": "0", **ports(1, 2)}, errors.SecurityGroupInvalidProtocolForPort),
        ({"protocol": "icmp", **ports(None, 0)}, errors.SecurityGroupMissingIcmpType),
        ({"protocol": "icmp", **ports(300, None)}, errors.SecurityGroupInvalidIcmpValue),
        ({"protocol": "icmp", **ports(8, 256)}, errors.SecurityGroupInvalidIcmpValue),
        ({"protocol": "icmpv6", **V6, **ports(256, None)}, errors.SecurityGroupInvalidIcmpValue),
        ({"protocol": "ipv6-icmp"}, errors.SecurityGroupEthertypeConflictWithProtocol),
        ({"protocol": "icmpv6"}, errors.SecurityGroupEthertypeConflictWithProtocol),
        ({"protocol": 58}, errors.SecurityGroupEthertypeConflictWithProtocol),
        ({"protocol": "43"}, errors.SecurityGroupEthertypeConflictWithProtocol),
        ({"protocol": "ipv6-opts"}, errors.SecurityGroupEthertypeConflictWithProtocol),
        ({"ethertype": "IPv9"}, errors.SecurityGroupRuleInvalidEtherType),
        ({"ethertype": 4}, errors.SecurityGroupRuleInvalidEtherType),
        ({"protocol": "bogus"}, errors.SecurityGroupRuleInvalidProtocol),
        ({"protocol": "256"}, errors.SecurityGroupRuleInvalidProtocol),
        ({"protocol": -1}, errors.SecurityGroupRuleInvalidProtocol),
        ({"protocol": True}, errors.SecurityGroupRuleInvalidProtocol),
        ({"protocol": ["tcp"]}, errors.SecurityGroupRuleInvalidProtocol),
        ({"remote_ip_prefix": "fe80::/10"}, errors.SecurityGroupRuleParameterConflict),
        ({"remote_ip_prefix": "10.0.0.0/8", **V6}, errors.SecurityGroupRuleParameterConflict),
        ({"remote_ip_prefix": "banana"}, errors.InvalidCIDR),
        ({"remote_ip_prefix": "10.0.0.0/33"}, errors.InvalidCIDR),
        ({"remote_ip_prefix": "fe80::1%eth0/64", **V6}, errors.InvalidCIDR),
        ({"remote_ip_prefix": 5}, errors.InvalidCIDR),
        ({"remote_ip_prefix": "10.0.0.0/8", "remote_group_id": OTHER}, errors.SecurityGroupMultipleRemoteEntites),
        (
            {"remote_address_group_id": OTHER, "remote_group_id": OTHER},
            errors.SecurityGroupMultipleRemoteEntites,
        ),
    ],
)
def test_contradiction_is_refused(given: dict[str, Any], refusal: type[errors.ApiError]) -> None:
    with pytest.raises(refusal) as caught:
        rule(**given)
    assert type(caught.value) is refusal
    assert caught.value.message


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"protocol": "tcp"}, {"protocol": 6}),
        ({"protocol": "TCP", **ports(1, 65535)}, {"protocol": "6"}),
        ({"protocol": "udp", **ports(5, 6)}, {"protocol": "17", **ports(5, 6)}),
        ({"protocol": "icmp", **V6}, {"protocol": "ipv6-icmp", **V6}),
        ({"protocol": "1", **V6}, {"protocol": "icmpv6", **V6}),
        ({"remote_ip_prefix": "0.0.0.0/0"}, {}),
        ({"remote_ip_prefix": "::/0", **V6}, V6),
        ({"remote_ip_prefix": "10.0.0.1"}, {"remote_ip_prefix": "10.0.0.1/32"}),
        ({"ethertype": "ipv4"}, {"ethertype": "IPv4"}),
        ({"description": "one"}, {"description": "two"}),
    ],
)
def test_same_rule(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert rule(**left).identity == rule(**right).identity
    with pytest.raises(errors.DuplicateSecurityGroupRuleInPost):
        refuse_repeated([rule(**left), rule(**right)])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({}, V6),
        ({}, {"direction": "egress"}),
        ({"protocol": "tcp"}, {"protocol": "udp"}),
        ({"protocol": "tcp"}, {}),
        ({"protocol": "0"}, {}),
        ({"protocol": "icmp"}, {"protocol": "icmp", **V6}),
        ({"protocol": "icmp", **ports(8, None)}, {"protocol": "icmp", **ports(8, 0)}),
        ({"protocol": "icmp", **ports(0, None)}, {"protocol": "icmp"}),
        ({"remote_ip_prefix": "10.0.0.0/8"}, {"remote_ip_prefix": "10.0.0.5/8"}),
        ({"remote_group_id": OTHER}, {"remote_address_group_id": OTHER}),
        ({"remote_group_id": OTHER}, {"remote_group_id": GROUP}),
    ],
)
def test_different_rules(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert rule(**left).identity != rule(**right).identity
    refuse_repeated([rule(**left), rule(**right)])


def test_bulk_is_for_one_group_and_one_project() -> None:
    assert [r.protocol for r in check_bulk([parsed({"protocol": "tcp"}), parsed({"protocol": "udp"})])] == [
        "tcp",
        "udp",
    ]
    with pytest.raises(errors.SecurityGroupNotSingleGroupRules):
        check_bulk([parsed({}), parsed({"security_group_id": OTHER})])
    with pytest.raises(errors.SecurityGroupRulesNotSingleProject):
        check_bulk([parsed({}), parsed({}) | {"project_id": "q"}])


def test_first_rules() -> None:
    templates = [
        {**EMPTY, "direction": direction, "ethertype": "IPv4", "remote_group_id": remote, "description": ""}
        for direction, remote in (("egress", None), ("ingress", "PARENT"))
    ]
    made = first_rules(templates, GROUP)
    assert [(r.direction, r.remote_group_id) for r in made] == [("egress", None), ("ingress", GROUP)]


def test_identity_fits_its_column() -> None:
    longest = rule(
        protocol="udplite",
        ethertype="IPv6",
        remote_ip_prefix="2001:db8:1111:2222:3333:4444:5555:6666/128",
        **ports(10000, 65535),
    )
    assert len(longest.identity) < 255
