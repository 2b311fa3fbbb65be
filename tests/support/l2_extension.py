"""The worked example of docs/design/extensions.md, and a host that runs it on the fake or on a real Open vSwitch."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.extension_api import L2Extension
from neutrino.agent.l2.extensions import BUILT_IN
from neutrino.agent.l2.reconciler import Outcome, Reconciler
from neutrino.agent.runtime.role import Drift
from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK, Meter, OpenFlow
from neutrino.dataplane.ovsdb.api import DeletePort, Ovsdb, Port, SetPort
from neutrino.model import state
from tests.support.switch_host import Connections, host_state
from tests.support.waiting import eventually
from tests.third_party.rate_limit.model import RateLimit

_PAGE = Path(__file__).parents[2] / "docs/design/extensions.md"


@dataclasses.dataclass(frozen=True)
class Limit:
    """An object of the example's kind."""

    id: str
    packets_per_second: int
    bits_per_second: int
    dscp: int | None = None


def rate_limit() -> L2Extension:
    """The extension of the page, from the page's own text."""
    code = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    namespace: dict[str, Any] = {"__name__": "example"}
    for block in code:
        exec(block, namespace)
    made: L2Extension = namespace["RateLimit"](None)
    return made


class ExtensionHost:
    def __init__(
        self, ovsdb: Ovsdb, openflow: OpenFlow, datapath_type: str, extensions: Sequence[L2Extension] | None = None
    ) -> None:
        self.ovsdb, self.openflow = ovsdb, openflow
        self._datapath_type = datapath_type
        self.restart((rate_limit(),) if extensions is None else extensions)

    def restart(self, extensions: Sequence[L2Extension]) -> None:
        """A new agent without memory, with these extensions."""
        options = L2Options(datapath_type=self._datapath_type)
        self.reconciler = Reconciler(
            *(lambda: self.ovsdb, self.openflow, Connections(), options), extensions=(*BUILT_IN, *extensions)
        )

    def plug(self, port_id: str, device_type: str = "") -> None:
        self.ovsdb.apply([SetPort("br-int", f"tap{port_id}", device_type, external_ids={"iface-id": port_id})])

    def unplug(self, port_id: str) -> None:
        self.ovsdb.apply([DeletePort("br-int", f"tap{port_id}")])

    def reconcile(self, *objects: state.Object | Limit, complete: bool = True) -> Outcome:
        return self.reconciler.reconcile(self._state(objects), complete=complete)

    def find(self, *objects: state.Object | Limit) -> Drift:
        return self.reconciler.find(self._state(objects), complete=True)

    def _state(self, objects: Sequence[state.Object | Limit]) -> Any:
        limits = {entry.id: entry for entry in objects if isinstance(entry, Limit | RateLimit)}
        others = (entry for entry in objects if not isinstance(entry, Limit | RateLimit))
        return dataclasses.replace(host_state(*others), extension_objects={"rate_limit": limits})  # type: ignore[arg-type]

    def until(self, holds: Callable[[], bool]) -> None:
        eventually(holds)

    def port(self, port_id: str) -> Port:
        return self.ovsdb.read().bridges["br-int"].ports[f"tap{port_id}"]

    def meters(self) -> dict[int, Meter]:
        return self.openflow.read_meters("br-int")

    def limited(self) -> dict[int, str]:
        """In-ports of the flows in the extension's table, to their actions."""
        flows = self.openflow.read_flows("br-int", COOKIE, COOKIE_MASK)
        own = [table.number for table in self.reconciler.options.extension_tables if table.name == "rate_limit"]
        return {
            int(flow.match.removeprefix("in_port=")): flow.actions
            for flow in flows
            if flow.table in own and flow.priority
        }
