"""`neutrino history [KIND] ID_OR_NAME`: the changes of an object from the change log, with the requests that made them.

The log keeps changes for `[feed] keep_changes` seconds. It tells when an object was created, updated and deleted, by which
request and user, and the old and new values of what an update has changed; the server's and the hosts' log lines have the
same request id.
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from neutrino.cli import cloud
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.parser import Parser
from neutrino.cli.tables import printable
from neutrino.model.objects import Object

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
PAGE: Final = 1000
# Kinds of the change log with the collection in which an object is looked up by its name; empty: it has no name.
COLLECTIONS: Final[Mapping[str, str]] = {
    "network": "networks",
    "subnet": "subnets",
    "port": "ports",
    "router": "routers",
    "floatingip": "floatingips",
    "security_group": "security-groups",
    "security_group_rule": "",
    "subnetpool": "subnetpools",
    "address_scope": "address-scopes",
    "address_group": "address-groups",
    "rbac_policy": "",
    "port_forwarding": "",
    "qos_policy": "qos/policies",
    "firewall_group": "fwaas/firewall_groups",
    "firewall_policy": "fwaas/firewall_policies",
    "firewall_rule": "fwaas/firewall_rules",
    "metering_label": "metering/metering-labels",
    "trunk": "trunks",
    "local_ip": "local-ips",
    "log": "log/logs",
    "tap_service": "taas/tap_services",
    "tap_flow": "taas/tap_flows",
    "tap_mirror": "taas/tap_mirrors",
    "bgp_speaker": "bgp-speakers",
    "bgp_peer": "bgp-peers",
    "ikepolicy": "vpn/ikepolicies",
    "ipsecpolicy": "vpn/ipsecpolicies",
    "endpoint_group": "vpn/endpoint-groups",
    "vpnservice": "vpn/vpnservices",
    "ipsec_site_connection": "vpn/ipsec-site-connections",
    "agent": "",
}


def add_arguments(parser: Parser) -> None:
    parser.add_argument("kind", nargs="?", default="", metavar="KIND", help="such as port (default: of any kind)")
    parser.add_argument("object", metavar="ID_OR_NAME", help="a floating IP may be given by its address")
    cloud.add_arguments(parser)


def history(args: argparse.Namespace) -> int | None:
    kind, name = _kind(args.kind), args.object
    api = cloud.connect(args)
    object_id = name if _UUID.fullmatch(name) else _find(api, kind, name)
    rows, position, removed = _changes(api, object_id, kind)
    if args.json:
        print(json.dumps({"object_id": object_id, "changes": rows, "position": position, "removed": removed}, indent=2))
        return None
    for line in lines(object_id, rows, removed):
        print(line)
    return None


def _kind(text: str) -> str:
    """Return the kind by the name in the log, or as the `openstack` client writes it (`floating ip`); empty: any."""
    kind = re.sub("[ -]", "_", text.lower())
    kind = {"floating_ip": "floatingip", "subnet_pool": "subnetpool"}.get(kind, kind)
    if kind and kind not in COLLECTIONS:
        raise CommandError(f"{text!r} is none of the kinds {', '.join(sorted(COLLECTIONS))}", INVALID)
    return kind


def _find(api: cloud.Cloud, kind: str, name: str) -> str:
    """Find the id of the one object with this name or, for a floating IP, this address."""
    if kind and not COLLECTIONS[kind]:
        raise CommandError(f"an object of kind {kind} is given by its id: {name} is none", INVALID)
    kinds = [kind] if kind else [known for known, collection in COLLECTIONS.items() if collection]
    candidates = [(known, item["id"]) for known in kinds for item in _named(api, known, name)]
    if not candidates:
        what = kind.replace("_", " ") or "object"
        raise CommandError(f"there is no {what} named {name}; the history of a deleted object is found by its id")
    if len(candidates) > 1:
        listed = ", ".join(f"{known} {key}" for known, key in candidates[:10])
        raise CommandError(f"{len(candidates)} objects are named {name}: {listed}; give the kind or the id", INVALID)
    return str(candidates[0][1])


def _named(api: cloud.Cloud, kind: str, name: str) -> list[Object]:
    collection = COLLECTIONS[kind]
    key = "floating_ip_address" if kind == "floatingip" else "name"
    try:
        body = api.get(f"/v2.0/{collection}", **{key: name, "fields": "id"})
    except cloud.ApiError as error:
        if error.status == 404:  # the service plugin is not configured
            return []
        raise
    items: list[Object] = body[collection.rpartition("/")[2].replace("-", "_")]
    return items


def _changes(api: cloud.Cloud, object_id: str, kind: str) -> tuple[list[Object], int, int]:
    rows: list[Object] = []
    after, only = 0, {"kind": kind} if kind else {}
    while True:
        body = api.get("/v2.0/changes", object_id=object_id, after=after, limit=PAGE, **only)
        rows += body["changes"]
        if len(body["changes"]) < PAGE:
            return rows, body["position"], body["removed"]
        after = body["changes"][-1]["position"]


def lines(object_id: str, rows: list[Object], removed: int) -> Iterator[str]:
    """Render the changes as a table, oldest first, and how far back the log goes."""
    begins_with_creation = bool(rows) and rows[0]["action"] == "created"
    if removed and not begins_with_creation:
        yield "The oldest changes have been removed from the log ([feed] keep_changes) and are not listed."
    if not rows:
        yield f"The change log has no change of {object_id}."
        return
    users = [str(row.get("user_id") or "-") for row in rows]
    width = max(len("USER"), *map(len, users))
    yield f"{'POSITION':>16}  {'TIME':<20}  {'KIND':<20}  {'ACTION':<8}  {'USER':<{width}}  REQUEST"
    for row, user in zip(rows, users, strict=True):
        request = row["request_id"] or "- (a host's report, or the server itself)"
        line = (
            f"{row['position']:>16}  {row['at']:<20}  {row['kind']:<20}  {row['action']:<8}  {user:<{width}}  {request}"
        )
        yield printable(line)
        for one in row.get("changed", ()):
            yield printable(f"{'':>16}  {one['name']}: {_value(one['old'])} → {_value(one['new'])}")


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
