"""Allocations in Placement follow when the QoS policy of an instance's port changes.

Nova has allocated the port's minimums, on providers that `binding:profile` names by groups. The amounts that the instance
then has there are computed from all its ports and written as they should be, not added: a repeated request changes nothing.
What does not fit is refused, and the port keeps its policy. A type of minimum that the port did not have has no provider:
as in Neutron, only the host keeps it.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.qos.errors import PlacementUnavailable, QosPlacementAllocationUpdateConflict
from neutrino.features.qos.resource_request import RESOURCES, groups_of
from neutrino.features.qos.tables import qos_policies
from neutrino.model.objects import Object, Values
from neutrino.server.api.resources.port import COMPUTE_OWNER
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode, encode
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.ports.hardware import own_profile
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.placement import ALLOCATION, Call, PlacementResponse, Unavailable

LOG = logging.getLogger(__name__)
REPEATS = 5
VERSION, TIMEOUT = "1.28", 10.0  # of requests to Placement: a client waits for them
_PROFILE = "binding:profile"
Rules = Sequence[Values]
Amounts = dict[str, dict[str, int]]  # by provider, then resource class
_network_policy = sa.select(t.networks.c.qos_policy_id).where(t.networks.c.id == t.ports.c.network_id).scalar_subquery()
_PORTS = sa.select(
    t.ports.c.id, t.ports.c.profile, sa.func.coalesce(t.ports.c.qos_policy_id, _network_policy).label("policy_id")
).where(t.ports.c.device_id == sa.bindparam("device"), t.ports.c.device_owner.startswith(COMPUTE_OWNER))
_RULES = sa.select(qos_policies.c.id, qos_policies.c.rules).where(
    qos_policies.c.id.in_(sa.bindparam("ids", expanding=True))
)


@dataclass(frozen=True)
class Allocations:
    """What a change of ports does to allocations."""

    call: Call

    def changed(
        self, connection: Connection, context: Context, before: Object | None, after: Object | None
    ) -> Write | None:
        """Called before the transaction of a change; sets the profile of the port after it."""
        if before is None or after is None or _policy(before) == _policy(after):
            return None
        allocation = before[_PROFILE].get(ALLOCATION)
        if not before["device_owner"].startswith(COMPUTE_OWNER) or after[_PROFILE] != before[_PROFILE]:
            return None  # whoever changes the profile has allocated
        if not isinstance(allocation, Mapping) or not allocation:
            return None
        ports = connection.execute(_PORTS, {"device": before["device_id"]}).all()
        rules = _rules(connection, {_policy(before), _policy(after), *(port.policy_id for port in ports)})
        follows = after_change(before["id"], allocation, rules.get(_policy(before), ()), rules.get(_policy(after), ()))
        others = {port.id: (decode(port.profile).get(ALLOCATION), port.policy_id) for port in ports}
        others[before["id"]] = (follows, _policy(after))
        wanted = amounts((key, each, rules.get(policy or "", ())) for key, (each, policy) in others.items())
        known = {group.id for group in groups_of(before["id"], rules.get(_policy(before), ())).values()}
        own = {str(provider) for key, provider in allocation.items() if key in known}
        self._write(context, before, {provider: wanted.get(provider, {}) for provider in own})
        profile = {**before[_PROFILE], ALLOCATION: follows}
        after[_PROFILE] = profile
        return _storing(after)

    def _write(self, context: Context, port: Object, wanted: Amounts) -> None:
        """Replace what the instance has of our classes on these providers."""
        consumer, port_id = port["device_id"], port["id"]

        def refused(reason: str) -> QosPlacementAllocationUpdateConflict:
            return QosPlacementAllocationUpdateConflict(consumer=consumer, port_id=port_id, reason=reason)

        path = f"/allocations/{consumer}"
        for _ in range(REPEATS):
            answer = self._ask(port_id, "GET", path, None)
            current = answer.body["allocations"] if answer.status == 200 else {}
            if missing := sorted(wanted.keys() - current.keys()):
                raise refused(f"it has none on resource provider {missing[0]}.")
            # A project sets device_id as it likes, and must not change what others have allocated.
            if not context.is_admin and answer.body["project_id"] != port["project_id"]:
                raise refused("it is an instance of another project.")
            body = {**answer.body, "allocations": replaced(current, wanted)}
            if body == answer.body:
                return
            answer = self._ask(port_id, "PUT", path, body)
            if answer.status < 300:
                return
            errors = answer.body.get("errors") if isinstance(answer.body, Mapping) else None
            error = errors[0] if errors else {}
            if error.get("code") != "placement.concurrent_update":
                raise refused(" ".join(str(error.get("detail", f"HTTP {answer.status}")).split())[:500])
        raise refused("others change it at the same time.")

    def _ask(self, port_id: str, method: str, path: str, body: Any) -> PlacementResponse:
        try:
            answer = self.call(method, path, body)
        except Unavailable as why:
            LOG.warning("the allocation of port %s cannot be changed: %s", port_id, why)
            raise PlacementUnavailable(port_id=port_id) from why
        if answer.status >= 500 or answer.status in (401, 403):
            LOG.warning(
                "the allocation of port %s cannot be changed: %s %s: HTTP %s", port_id, method, path, answer.status
            )
            raise PlacementUnavailable(port_id=port_id)
        return answer


# --- pure ---------------------------------------------------------------------------------------------------------------


def after_change(port_id: str, allocation: Mapping[str, Any], old: Rules, new: Rules) -> dict[str, Any]:
    """The allocation of a port with other rules: the same providers, under the new groups."""
    providers = {type_: allocation.get(group.id) for type_, group in groups_of(port_id, old).items()}
    groups = groups_of(port_id, new).items()
    if without := [type_ for type_, _ in groups if not providers.get(type_)]:
        LOG.warning("port %s: Nova has allocated no %s: only the host keeps it", port_id, ", ".join(without))
    return {group.id: providers[type_] for type_, group in groups if providers.get(type_)}


def amounts(ports: Any) -> Amounts:
    """What ports need of each provider: of their allocations, by the groups of their rules."""
    found: Amounts = {}
    for port_id, allocation, rules in ports:
        for group in groups_of(port_id, rules).values():
            provider = allocation.get(group.id) if isinstance(allocation, Mapping) else None
            if provider:
                total = found.setdefault(str(provider), {})
                for name, amount in group.resources.items():
                    total[name] = total.get(name, 0) + amount
    return found


def replaced(current: Mapping[str, Values], wanted: Amounts) -> dict[str, Values]:
    """Allocations of an instance with other amounts on some providers. A provider without any is left out."""
    after = dict(current)
    for provider, resources in wanted.items():
        others = {name: amount for name, amount in current[provider]["resources"].items() if name not in RESOURCES}
        after[provider] = {**current[provider], "resources": {**others, **{k: v for k, v in resources.items() if v}}}
    return {provider: each for provider, each in after.items() if each["resources"]}


# --- rows ---------------------------------------------------------------------------------------------------------------


def _policy(port: Values) -> str:
    return port["qos_policy_id"] or port["qos_network_policy_id"] or ""


def _rules(connection: Connection, policies: set[str | None]) -> dict[str, Rules]:
    found = connection.execute(_RULES, {"ids": sorted(one for one in policies if one)})
    return {row.id: decode(row.rules) for row in found}


def _storing(port: Object) -> Write:
    profile, own = encode(port[_PROFILE]), encode(own_profile(port))

    def write(tx: Transaction) -> None:
        tx.write(sa.update(t.ports).where(t.ports.c.id == port["id"]).values(profile=profile))
        of_port = t.port_bindings.c.port_id == port["id"], t.port_bindings.c.status == "ACTIVE"
        tx.write(sa.update(t.port_bindings).where(*of_port).values(profile=own))

    return write
