"""Allocations in Placement follow when the QoS policy of an instance's port changes: its own, or that of its network.

Nova has allocated the port's minimums, on providers that `binding:profile` names by groups. The amounts that the instance
then has there are computed from all its ports (`consumers.py`). What does not fit is refused, and all ports keep their
policy. A type of minimum that a port did not have has no provider: as in Neutron, only the host keeps it.

Owners of ports set `device_id` as they like, so ports of other projects do not count for an instance. Two requests that
change two ports of one instance would each count the other port's former policy: the rows that were counted are compared
again in the transaction, and a request that has lost is decided again.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.qos.consumers import Amounts, Consumers, Wanted, total
from neutrino.features.qos.resource_request import groups_of
from neutrino.features.qos.tables import qos_policies
from neutrino.model.objects import Object, Values
from neutrino.server.api.resources.port import COMPUTE_OWNER
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode, encode, update_row
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Stale, Transaction
from neutrino.server.ml2.ports.hardware import own_profile
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.placement import ALLOCATION
from neutrino.server.uses import AgreedWrite

LOG = logging.getLogger(__name__)
IDS_PER_QUERY = 500
_PROFILE = "binding:profile"
Rules = Sequence[Values]
_p = t.ports.c
_ids: sa.BindParameter[str] = sa.bindparam("ids", expanding=True)
_network_policy = sa.select(t.networks.c.qos_policy_id).where(t.networks.c.id == _p.network_id).scalar_subquery()
_of_devices = _p.device_id.in_(_ids), _p.device_owner.startswith(COMPUTE_OWNER)
_OF_DEVICES = sa.select(
    *(_p.id, _p.device_id, _p.project_id, _p.revision_number, _p.profile),
    sa.func.coalesce(_p.qos_policy_id, _network_policy).label("policy_id"),
).where(*_of_devices)
# In one order, or two transactions would deadlock.
_LOCK = (
    sa.select(_p.id, _p.device_id, _p.project_id, _p.revision_number)
    .where(*_of_devices)
    .order_by(_p.id)
    .with_for_update()
)
# Those whose policy is that of their network.
_OF_NETWORK = (
    sa.select(_p.id, _p.project_id, _p.revision_number, _p.device_id, _p.profile, _p.trusted)
    .where(_p.network_id == sa.bindparam("network"), _p.qos_policy_id.is_(None))
    .where(_p.device_owner.startswith(COMPUTE_OWNER))
    .order_by(_p.id)
)
_RULES = sa.select(qos_policies.c.id, qos_policies.c.rules).where(qos_policies.c.id.in_(_ids))


@dataclass(frozen=True)
class Allocated:
    """A port of an instance with what Nova has allocated for it."""

    id: str
    instance: str
    allocation: Mapping[str, Any]  # of its profile: the resource provider of each group
    project_id: str
    of_any_project: bool = False  # the instance; otherwise it must be of the port's project


@dataclass(frozen=True)
class Followed:
    """What follows from other policies, if Placement accepts it."""

    wanted: Sequence[Wanted]  # for Placement
    allocations: Mapping[str, dict[str, Any]]  # of ports with minimums, by id
    owners: Mapping[str, frozenset[str]]  # instances, with the projects whose ports were counted
    counted: Mapping[str, int]  # other ports of these instances, with their revisions

    def check(self, tx: Transaction) -> None:
        """Stale if other ports of the instances have come, gone or changed since they were counted."""
        there: dict[str, int] = {}
        for row in _in_parts(tx.execute, _LOCK, sorted(self.owners)):
            if row.id not in self.allocations and row.project_id in self.owners[row.device_id]:
                there[row.id] = row.revision_number
        if there != self.counted:
            raise Stale
        tx.exclude_other_nodes(_p.name, there)


@dataclass(frozen=True)
class Allocations:
    """What changes of policies do to allocations: called before the transaction of a change, when all else is decided.

    Placement is asked once the connection by which all was read is free: it may take seconds to answer.
    """

    consumers: Consumers

    def of_port(
        self, connection: Connection, context: Context, before: Object | None, after: Object | None
    ) -> Write | None:
        """The port has another policy: sets the profile of the port after the change."""
        if before is None or after is None or _policy(before) == _policy(after):
            return None
        allocation = before[_PROFILE].get(ALLOCATION)
        if not before["device_owner"].startswith(COMPUTE_OWNER) or after[_PROFILE] != before[_PROFILE]:
            return None  # whoever changes the profile has allocated
        if not isinstance(allocation, Mapping) or not allocation:
            return None
        # An administrator may give an instance a port of another project.
        port = Allocated(before["id"], before["device_id"], allocation, before["project_id"], context.is_admin)
        followed = self._follow(connection, [port], _policy(before), _policy(after))
        if port.id not in followed.allocations:
            return None
        after[_PROFILE] = {**before[_PROFILE], ALLOCATION: followed.allocations[port.id]}

        def write(tx: Transaction) -> None:
            followed.check(tx)
            _store(tx, after["id"], after[_PROFILE], own_profile(after))

        return AgreedWrite(partial(self.consumers.write, followed.wanted), write)

    def of_network(self, connection: Connection, context: Context, before: Object, after: Object) -> Write | None:
        """The network has another policy: that of all its ports without one of their own."""
        old, new = before["qos_policy_id"] or "", after["qos_policy_id"] or ""
        if old == new:
            return None
        rows = {row.id: row for row in connection.execute(_OF_NETWORK, {"network": before["id"]})}
        profiles = {key: decode(row.profile) for key, row in rows.items() if f'"{ALLOCATION}"' in row.profile}
        # Whoever calls, an allocation must be of the port's project: the owners of ports set any device_id.
        ports = [
            Allocated(key, rows[key].device_id, profile[ALLOCATION], rows[key].project_id)
            for key, profile in profiles.items()
            if isinstance(profile.get(ALLOCATION), Mapping) and profile[ALLOCATION]
        ]
        if not ports:
            return None
        followed = self._follow(connection, ports, old, new)

        def write(tx: Transaction) -> None:
            followed.check(tx)
            for key, allocation in followed.allocations.items():
                profile = {**profiles[key], ALLOCATION: allocation}
                update_row(tx, t.ports, rows[key]._asdict(), {})  # its next revision; Stale if it has changed
                _store(tx, key, profile, own_profile({_PROFILE: profile, "trusted": rows[key].trusted}))

        return AgreedWrite(partial(self.consumers.write, followed.wanted), write) if followed.allocations else None

    def _follow(self, connection: Connection, ports: Sequence[Allocated], old: str, new: str) -> Followed:
        """What the instances of ports are to have in Placement, and what follows from it here."""
        of_instances = list(_in_parts(connection.execute, _OF_DEVICES, sorted({port.instance for port in ports})))
        rules = _rules(connection, {old, new, *(row.policy_id for row in of_instances)})
        before, after = rules.get(old, ()), rules.get(new, ())
        ports = [port for port in ports if port.allocation.keys() & group_ids(port.id, before)]
        follows = {port.id: after_change(port.id, port.allocation, before, after) for port in ports}
        owners: dict[str, frozenset[str]] = {}
        for port in ports:
            owners[port.instance] = owners.get(port.instance, frozenset()) | {port.project_id}
        others = [
            row
            for row in of_instances
            if row.id not in follows and row.project_id in owners.get(row.device_id, frozenset())
        ]
        now, then = defaultdict[str, list[Amounts]](list), defaultdict[str, list[Amounts]](list)
        for port in ports:
            now[port.instance].append(amounts(port.id, port.allocation, before))
            then[port.instance].append(amounts(port.id, follows[port.id], after))
        for row in others:
            allocation = decode(row.profile).get(ALLOCATION)
            of_row = amounts(row.id, allocation, rules.get(row.policy_id or "", ()))
            now[row.device_id].append(of_row)
            then[row.device_id].append(of_row)
        changed = wanted(ports, before, _totals(now), _totals(then))
        return Followed(changed, follows, owners, {row.id: row.revision_number for row in others})


# --- pure ---------------------------------------------------------------------------------------------------------------


def after_change(port_id: str, allocation: Mapping[str, Any], old: Rules, new: Rules) -> dict[str, Any]:
    """The allocation of a port with other rules: the same providers, under the new groups."""
    providers = {type_: allocation.get(group.id) for type_, group in groups_of(port_id, old).items()}
    groups = groups_of(port_id, new).items()
    if without := [type_ for type_, _ in groups if not providers.get(type_)]:
        LOG.warning("port %s: Nova has allocated no %s: only the host keeps it", port_id, ", ".join(without))
    return {group.id: providers[type_] for type_, group in groups if providers.get(type_)}


def group_ids(port_id: str, rules: Rules) -> set[str]:
    return {group.id for group in groups_of(port_id, rules).values()}


def amounts(port_id: str, allocation: object, rules: Rules) -> Amounts:
    """What a port needs of each provider: of its allocation, by the groups of its rules."""
    providers = allocation if isinstance(allocation, Mapping) else {}
    groups = groups_of(port_id, rules).values()
    return total({str(providers[group.id]): group.resources} for group in groups if providers.get(group.id))


def wanted(
    ports: Sequence[Allocated], old: Rules, now: Mapping[str, Amounts], then: Mapping[str, Amounts]
) -> list[Wanted]:
    """What instances are to have on the providers of these ports; `now` and `then`: what all ports of each need."""
    found: dict[str, Wanted] = {}
    for port in ports:
        own = {str(port.allocation[key]) for key in port.allocation.keys() & group_ids(port.id, old)}
        before, after = (
            {provider: of_instances.get(port.instance, {}).get(provider, {}) for provider in own}
            for of_instances in (now, then)
        )
        same = found.get(port.instance, Wanted(port.instance, port.id, {}, frozenset()))
        found[port.instance] = replace(
            same,
            amounts={**same.amounts, **after},
            projects=same.projects if port.of_any_project else same.projects | {port.project_id},
            before={**same.before, **before},
        )
    return list(found.values())


def _totals(needs: Mapping[str, Sequence[Amounts]]) -> dict[str, Amounts]:
    return {instance: total(each) for instance, each in needs.items()}


# --- rows ---------------------------------------------------------------------------------------------------------------


def _policy(port: Values) -> str:
    return port["qos_policy_id"] or port["qos_network_policy_id"] or ""


def _in_parts(
    execute: Callable[..., Iterable[NamedRow]], query: sa.Executable, ids: Sequence[str]
) -> Iterator[NamedRow]:
    for start in range(0, len(ids), IDS_PER_QUERY):
        yield from execute(query, {"ids": ids[start : start + IDS_PER_QUERY]})


def _rules(connection: Connection, policies: set[str]) -> dict[str, Rules]:
    found = connection.execute(_RULES, {"ids": sorted(one for one in policies if one)})
    return {row.id: decode(row.rules) for row in found}


def _store(tx: Transaction, port_id: str, profile: Object, own: Object) -> None:
    """Write the profile of a port, and of its binding without what the port adds to it."""
    tx.write(sa.update(t.ports).where(_p.id == port_id).values(profile=encode(profile)))
    of_port = t.port_bindings.c.port_id == port_id, t.port_bindings.c.status == "ACTIVE"
    tx.write(sa.update(t.port_bindings).where(*of_port).values(profile=encode(own)))
