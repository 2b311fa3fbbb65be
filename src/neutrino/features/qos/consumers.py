"""What instances have allocated in Placement for minimums of their ports: read, and written for several instances at once.

Amounts are written as they should be, so a repeated request changes nothing. Where Placement has neither what the ports
needed before nor what they will need, others count there too, such as a port that Nova is attaching and has allocated for
already: then the difference is added. One instance is written by its own request; several by one request, which Placement
carries out as one transaction, so that all of them change or none.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from neutrino.features.qos.errors import (
    PlacementUnavailable,
    QosPlacementAllocationUpdateConflict,
    TooManyAllocations,
)
from neutrino.features.qos.resource_request import RESOURCES
from neutrino.model.objects import Object, Values
from neutrino.server.api.types import is_uuid
from neutrino.server.placement import Call, PlacementResponse, Unavailable

LOG = logging.getLogger(__name__)
REPEATS = 5
READERS = 8  # requests at the same time
VERSION, TIMEOUT = "1.28", 10.0  # of requests to Placement: a client waits for them
MAX_INSTANCES = 500  # of one change: Placement needs about 10 ms for each, in one transaction
SECONDS = 60.0  # for all instances of a change to be read, and again for them to be written
Amounts = Mapping[str, Mapping[str, int]]  # by provider, then resource class


@dataclass(frozen=True)
class Wanted:
    """What an instance is to have on some providers of its ports."""

    instance: str
    port_id: str  # a port with them, for errors
    amounts: Amounts
    projects: frozenset[str]  # of the ports: the allocation must be of the same; empty: of any
    before: Amounts = field(default_factory=dict)  # what its ports needed until now


@dataclass(frozen=True)
class Consumers:
    call: Call
    call_for_many: Call  # with more time

    def write(self, several: Sequence[Wanted]) -> None:
        """Change what these instances have of our resource classes; all of them or none."""
        if len(several) > MAX_INSTANCES:
            raise TooManyAllocations(count=len(several), maximum=MAX_INSTANCES)
        for one in several:
            if not is_uuid(one.instance):  # a project sets device_id as it likes, and this becomes part of a path
                raise refused(one, "it is no instance.")
        for _ in range(REPEATS):
            current = self._read(several)
            bodies = {one.instance: changed(one, current[one.instance]) for one in several}
            bodies = {instance: body for instance, body in bodies.items() if body != current[instance]}
            if not bodies:
                return
            first = next(one for one in several if one.instance in bodies)
            answer = self._write(first, bodies)
            if answer.status < 300:
                return
            errors = answer.body.get("errors") if isinstance(answer.body, Mapping) else None
            error = errors[0] if errors else {}
            if error.get("code") != "placement.concurrent_update":
                detail = " ".join(str(error.get("detail", f"HTTP {answer.status}")).split())[:500]
                raise refused(blamed(detail, [one for one in several if one.instance in bodies]), detail)
        raise refused(first, "others change it at the same time.")

    def _read(self, several: Sequence[Wanted]) -> dict[str, Object]:
        """Their allocations as Placement has them, each as the body of an answer."""
        deadline = time.monotonic() + SECONDS

        def read(one: Wanted) -> Object:
            if time.monotonic() > deadline:
                LOG.warning("Placement has not answered for %d instances within %.0f s", len(several), SECONDS)
                raise PlacementUnavailable(port_id=one.port_id)
            answer = self._ask(one.port_id, "GET", f"/allocations/{one.instance}", None)
            return answer.body if answer.status == 200 and isinstance(answer.body, dict) else {"allocations": {}}

        if len(several) == 1:
            return {several[0].instance: read(several[0])}
        with ThreadPoolExecutor(READERS, "placement") as readers:
            tasks = [readers.submit(read, one) for one in several]
            try:
                return {one.instance: task.result() for one, task in zip(several, tasks, strict=True)}
            finally:
                readers.shutdown(wait=False, cancel_futures=True)  # after an error, the others are not asked

    def _write(self, first: Wanted, bodies: Mapping[str, Object]) -> PlacementResponse:
        if len(bodies) == 1:
            ((instance, body),) = bodies.items()
            return self._ask(first.port_id, "PUT", f"/allocations/{instance}", body)
        return self._ask(first.port_id, "POST", "/allocations", bodies, self.call_for_many)

    def _ask(self, port_id: str, method: str, path: str, body: Any, call: Call | None = None) -> PlacementResponse:
        try:
            answer = (call or self.call)(method, path, body)
        except Unavailable as why:
            LOG.warning("the allocation of port %s cannot be changed: %s", port_id, why)
            raise PlacementUnavailable(port_id=port_id) from why
        if answer.status >= 500 or answer.status in (401, 403):
            reason = f"{method} {path}: HTTP {answer.status}"
            LOG.warning("the allocation of port %s cannot be changed: %s", port_id, reason)
            raise PlacementUnavailable(port_id=port_id)
        return answer


# --- pure ---------------------------------------------------------------------------------------------------------------


def refused(one: Wanted, reason: str) -> QosPlacementAllocationUpdateConflict:
    return QosPlacementAllocationUpdateConflict(consumer=one.instance, port_id=one.port_id, reason=reason)


def blamed(detail: str, several: Sequence[Wanted]) -> Wanted:
    """Of the instances that Placement has refused together, the one to name: it has the provider of Placement's message."""
    return next((one for one in several if any(provider in detail for provider in one.amounts)), several[0])


def changed(wanted: Wanted, current: Object) -> Object:
    """What Placement is to have of an instance, from what it has; an error if that is not this port's to change."""
    allocations = current["allocations"]
    if missing := sorted(wanted.amounts.keys() - allocations.keys()):
        raise refused(wanted, f"it has none on resource provider {missing[0]}.")
    # A project sets device_id as it likes, and must not change what others have allocated.
    if wanted.projects - {current.get("project_id")}:
        raise refused(wanted, "it is an instance of another project.")
    return {**current, "allocations": replaced(allocations, wanted.before, wanted.amounts)}


def replaced(current: Mapping[str, Values], before: Amounts, wanted: Amounts) -> dict[str, Values]:
    """Allocations of an instance with other amounts on some providers. A provider without any is left out."""
    found = dict(current)
    for provider, resources in wanted.items():
        there, needed = current[provider]["resources"], before.get(provider, {})
        after = {
            name: amount(there.get(name, 0), needed.get(name, 0), resources.get(name, 0))
            for name in (*there, *resources)
            if name in RESOURCES
        }
        others = {name: each for name, each in there.items() if name not in RESOURCES}
        found[provider] = {**current[provider], "resources": {**others, **{k: v for k, v in after.items() if v}}}
    return {provider: each for provider, each in found.items() if each["resources"]}


def amount(there: int, before: int, after: int) -> int:
    """What an instance is to have of a resource, of which Placement has `there`."""
    return after if there in (before, after) else max(0, there + after - before)


def total(several: Iterable[Amounts]) -> Amounts:
    """The sums of amounts."""
    found: dict[str, dict[str, int]] = {}
    for one in several:
        for provider, resources in one.items():
            sums = found.setdefault(provider, {})
            for name, amount in resources.items():
                sums[name] = sums.get(name, 0) + amount
    return found
