"""Security groups: rules one by one and a hundred at once, lists of them, and the delete of a group full of rules."""

from __future__ import annotations

from typing import Any

from qa.bench.client import LoadError
from qa.bench.timing import figures, one_by_one, repeated
from qa.bench.workbench import Bench, identity


def _rule(group: str, index: int) -> dict[str, Any]:
    port = 1000 + index
    return {
        "security_group_id": group,
        "direction": "ingress",
        "ethertype": "IPv4",
        "protocol": "tcp",
        "port_range_min": port,
        "port_range_max": port,
        "remote_ip_prefix": "192.0.2.0/24",
    }


def run(bench: Bench) -> None:
    client, count, times = bench.client, bench.sizes.rules, bench.sizes.list_repeats
    measured, replies = one_by_one(
        ("singly", "at-once"),
        lambda name: client.post("/security-groups", {"security_group": {"name": f"bench-{name}"}}),
    )
    bench.record("create_group", measured)
    singly, together = (identity(reply) for reply in replies)

    measured, _ = one_by_one(
        range(count), lambda i: client.post("/security-group-rules", {"security_group_rule": _rule(singly, i)})
    )
    bench.record("create_rule", measured)
    rules = [_rule(together, i) for i in range(count)]
    bulk = client.post("/security-group-rules", {"security_group_rules": rules})
    if len(bulk.items()) != count:
        raise LoadError(f"{len(bulk.items())} rules made instead of {count}")
    bench.record(f"bulk_{count}_rules", {**figures([bulk.millis]), "items": count})

    measured, _ = one_by_one(range(times), lambda _: client.get(f"/security-groups/{singly}"))
    bench.record("show_group", measured)
    bench.record("list_groups", repeated(client, "/security-groups", times))
    # Both groups with their two default rules, and the four of the project's default group: 208.
    bench.record("list_rules", repeated(client, "/security-group-rules", times, at_least=2 * (count + 2) + 4))
    of_group = f"/security-group-rules?security_group_id={singly}"
    bench.record("list_rules_of_group", repeated(client, of_group, times, count + 2))
    measured, _ = one_by_one((singly, together), lambda group: client.delete(f"/security-groups/{group}"))
    bench.record("delete_group", measured)
