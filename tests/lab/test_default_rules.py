"""New security groups on real packets: the templates of rules reach the firewall, and so does the default statefulness."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.lab_control import Lab
from tests.support.lab_guests import (
    EVERYTHING,
    Guest,
    Spec,
    allow,
    attempts,
    can_ping,
    expect,
    make_group,
    make_guests,
    make_network,
    wait_until_reachable,
)

SERVICE, OTHER = 4444, 80
RULES, STATEFULNESS = "/v2.0/default-security-group-rules", "/v2.0/security-groups-default-statefulness"


@pytest.fixture(scope="module")
def guests(lab: Lab) -> tuple[Guest, Guest, Guest]:
    """A client on one host, and servers there and on another one."""
    everybody, _ = make_group(lab, "open", *EVERYTHING)
    net = make_network(lab, "blue")
    client, near, far = make_guests(
        lab,
        Spec("client", net, "h1", [everybody]),
        Spec("near", net, "h1", [everybody]),
        Spec("far", net, "h2", [everybody]),
    )
    return client, near, far


@contextlib.contextmanager
def setting(lab: Lab, path: str, name: str, **values: Any) -> Iterator[str]:
    made = lab.api.request("POST", path, {name: values})[name]["id"]
    try:
        yield made
    finally:
        lab.api.request("DELETE", f"{path}/{made}")


def test_a_new_group_lets_in_what_a_template_says(guests: tuple[Guest, Guest, Guest]) -> None:
    client, *servers = guests
    lab = client.lab
    used = {"used_in_default_sg": False, "used_in_non_default_sg": True}
    before, _ = make_group(lab, "before")
    rules = [{"direction": "ingress", **allow("tcp", SERVICE, ethertype=name), **used} for name in ("IPv4", "IPv6")]
    with contextlib.ExitStack() as stack:
        for rule in rules:
            stack.enter_context(setting(lab, RULES, "default_security_group_rule", **rule))
        after, _ = make_group(lab, "after")
    for server in servers:
        server.update(security_groups=[after])
    expect(attempts([client], servers, SERVICE), attempts([client], servers, OTHER))
    # The group of before has no such rule; the new one keeps it though the template is gone.
    for server in servers:
        server.update(security_groups=[before])
    expect([], attempts([client], servers, SERVICE, OTHER))
    servers[1].update(security_groups=[after])
    expect(attempts([client], servers[1:], SERVICE), attempts([client], servers[:1], SERVICE))


def test_a_new_group_is_stateless_by_default(guests: tuple[Guest, Guest, Guest]) -> None:
    """Answers come in by rules alone: a stateful group lets them in by their connection."""
    client, near, far = guests
    lab = client.lab
    tracked, _ = make_group(lab, "tracked")
    with setting(lab, STATEFULNESS, "security_group_default_statefulness", project_id=None, stateful=False):
        made = lab.api.create("security_group", name="untracked")
    assert made["stateful"] is False
    opened, _ = make_group(lab, "opened", *EVERYTHING)
    client.update(security_groups=[opened])
    far.update(security_groups=[tracked])
    wait_until_reachable(far, client)
    near.update(security_groups=[made["id"]])
    expect([], attempts([client], [near], OTHER))  # the group is in force
    assert not can_ping(near, client)
    assert can_ping(far, client)
