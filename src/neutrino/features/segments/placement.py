"""Reports of segments to Placement and Nova: a resource provider with an inventory, and a host aggregate, for each.

A change queues the segment. A background thread then reads what Placement and Nova should have (`inventory.py`), asks what
they have, and changes the difference: the order in which processes report does not matter, and a repeated report changes
nothing. Placement refuses an inventory that was changed meanwhile by its generation; it is then read and written again.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from neutrino.configuration.options import Configuration
from neutrino.features.segments import inventory as inventories
from neutrino.features.segments.inventory import Inventory
from neutrino.model.objects import Values
from neutrino.server.db.session import Database
from neutrino.server.events.delivery import DeliveryOptions, DeliveryQueue, Undelivered
from neutrino.server.events.keystone import is_configured
from neutrino.server.features import Running
from neutrino.server.hosts.registry import AgentReport
from neutrino.server.ml2.ports.host_subnets import SWITCHES
from neutrino.server.placement import Call, PlacementResponse, Unavailable, caller
from neutrino.server.services import Services

LOG = logging.getLogger(__name__)
RESOURCE_CLASS = "IPV4_ADDRESS"
PLACEMENT_VERSION, NOVA_VERSION = "1.1", "2.41"  # the first with aggregates of providers, and with their UUIDs in Nova
DELIVERY = DeliveryOptions(retry_for=300.0)


def _accepted(answer: PlacementResponse, what: str, *further: int) -> Any:
    if answer.status not in (200, 201, 202, 204, *further):
        raise Unavailable(f"{what}: HTTP {answer.status}")
    return answer.body


@dataclass(frozen=True)
class SegmentReports:
    """What Placement and Nova have of segments."""

    placement: Call
    nova: Call

    def sync(self, segment_id: str, wanted: Inventory | None) -> None:
        if wanted is None:
            self._remove(segment_id)
            return
        provider = f"/resource_providers/{segment_id}"
        if self.placement("GET", provider, None).status == 404:
            new = {"name": _name(segment_id), "uuid": segment_id}
            _accepted(self.placement("POST", "/resource_providers", new), "creating a resource provider")
        aggregate = self._aggregate(segment_id)
        if aggregate is None:
            body = {"aggregate": {"name": _name(segment_id), "availability_zone": None}}
            aggregate = _accepted(self.nova("POST", "/os-aggregates", body), "creating an aggregate")["aggregate"]
        path = f"{provider}/aggregates"
        if aggregate["uuid"] not in _accepted(self.placement("GET", path, None), "reading aggregates")["aggregates"]:
            _accepted(self.placement("PUT", path, [aggregate["uuid"]]), "associating an aggregate")
        self._sync_hosts(aggregate, wanted.hosts)
        self._sync_inventory(provider, wanted)

    def _aggregate(self, segment_id: str) -> Any:
        found = _accepted(self.nova("GET", "/os-aggregates", None), "listing aggregates")["aggregates"]
        return next((one for one in found if one["name"] == _name(segment_id)), None)

    def _sync_hosts(self, aggregate: Values, wanted: frozenset[str]) -> None:
        current = set(aggregate.get("hosts") or ())
        for action, hosts in (("add_host", wanted - current), ("remove_host", current - wanted)):
            for host in sorted(hosts):
                answer = self.nova("POST", f"/os-aggregates/{aggregate['id']}/action", {action: {"host": host}})
                if answer.status == 404 and action == "add_host":  # a network node has no compute service
                    LOG.debug("Nova does not know host %s: it is not in the aggregate of a segment", host)
                else:
                    _accepted(answer, f"{action} {host}", 404, 409)

    def _sync_inventory(self, provider: str, wanted: Inventory) -> None:
        path = f"{provider}/inventories"
        current = _accepted(self.placement("GET", path, None), "reading inventories")
        amounts = {"total": wanted.total, "reserved": min(wanted.reserved, wanted.total)}
        inventory = {**amounts, "min_unit": 1, "max_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
        if current["inventories"].get(RESOURCE_CLASS) == inventory:
            return
        body = {
            "resource_provider_generation": current["resource_provider_generation"],
            "inventories": {RESOURCE_CLASS: inventory},
        }
        _accepted(self.placement("PUT", path, body), "writing inventories")

    def _remove(self, segment_id: str) -> None:
        aggregate = self._aggregate(segment_id)
        if aggregate is not None:
            self._sync_hosts(aggregate, frozenset())
            _accepted(self.nova("DELETE", f"/os-aggregates/{aggregate['id']}", None), "deleting an aggregate", 404)
        answer = self.placement("DELETE", f"/resource_providers/{segment_id}", None)
        _accepted(answer, "deleting a resource provider", 404)


def _name(segment_id: str) -> str:
    return f"Neutron segment id {segment_id}"


# --- what changes make which segments be reported -----------------------------------------------------------------------


class Changed(NamedTuple):
    """A queued change: of a segment, of the addresses of a subnet, or of what hosts are connected to."""

    kind: str
    id: str = ""


@dataclass(eq=False)
class SegmentReporter:
    db: Database
    reports: SegmentReports
    options: DeliveryOptions = DELIVERY
    queue: DeliveryQueue[Changed] = field(init=False)

    def __post_init__(self) -> None:
        self.queue = DeliveryQueue("inventories of segments", self._deliver, self.options, merge_equal=True)

    def segment_changed(self, segment_id: str) -> None:
        self.queue.put(Changed("segment", segment_id))

    def subnet_changed(self, network_id: str, before: Values | None, after: Values | None) -> None:
        for subnet in (before, after):
            if subnet is not None and subnet["segment_id"] is not None and subnet["ip_version"] == 4:
                self.segment_changed(subnet["segment_id"])

    def port_changed(self, before: Values | None, after: Values | None) -> None:
        for subnet_id in inventories.concerned_subnets(before, after):
            self.queue.put(Changed("subnet", subnet_id))

    def host_reported(self, report: AgentReport) -> None:
        if report.agent_type in SWITCHES and report.needs_everything:
            self.queue.put(Changed("hosts"))

    def _deliver(self, batch: Sequence[Changed]) -> Undelivered[Changed] | None:
        try:
            with self.db.read() as connection:
                wanted = {one.id for one in batch if one.kind == "segment"}
                subnets = [one.id for one in batch if one.kind == "subnet"]
                wanted |= inventories.segments_of_subnets(connection, subnets) if subnets else set()
                if any(one.kind == "hosts" for one in batch):
                    wanted |= inventories.segments_with_addresses(connection)
                found = {key: inventories.read_inventory(connection, key) for key in sorted(wanted)}
            for segment_id, inventory in found.items():
                self.reports.sync(segment_id, inventory)
        except Unavailable as why:
            return Undelivered(batch, str(why))
        return None


def reporter_from_conf(conf: Configuration, db: Database) -> SegmentReporter | None:
    """None without credentials in `[placement]` and `[nova]`."""
    if not all(is_configured(conf, group) for group in ("placement", "nova")):
        return None
    purpose = "report the addresses of segments"
    placement = caller(conf, "placement", "placement", PLACEMENT_VERSION, purpose)
    return SegmentReporter(db, SegmentReports(placement, caller(conf, "nova", "compute", NOVA_VERSION, purpose)))


def start_reports(services: Services) -> Running:
    reporter = reporter_from_conf(services.conf, services.db)  # its thread starts with the first change, not here
    if reporter is None:
        return Running()
    return Running(
        port_changed=reporter.port_changed,
        subnet_changed=reporter.subnet_changed,
        segment_changed=reporter.segment_changed,
        host_reported=reporter.host_reported,
        close=reporter.queue.close,
    )
