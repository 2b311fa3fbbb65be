"""Statuses of trunks."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from neutrino.agent.l2.desired import Desired, HostState
from neutrino.agent.l2.extension_api import L2Extension, Unit
from neutrino.agent.l2.trunks import TRUNK
from neutrino.agent.runtime.role import ObjectStatus


class TrunkStatuses(L2Extension):
    """Reports a trunk with a port that could not be wired: the API shows it as degraded. It contributes no flows."""

    name = "trunks"

    def units(self, desired: Desired) -> Iterable[Unit]:
        return ()

    def statuses(
        self, host_state: HostState, wired: Collection[str], failed: Mapping[str, str]
    ) -> Iterator[ObjectStatus]:
        members = [port for port in host_state.ports.values() if port.trunk_id and port.active]
        broken = {port.trunk_id: failed[port.id] for port in members if port.id in failed}
        for trunk_id in sorted({port.trunk_id for port in members if port.id in wired or port.id in failed}):
            status = "ERROR" if trunk_id in broken else "ACTIVE"
            yield ObjectStatus(TRUNK, trunk_id, status, reason=broken.get(trunk_id, ""))
