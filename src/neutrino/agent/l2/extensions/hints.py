"""Port hints: settings of a port's interface that its owner asks the switch for.

`tx-steering` chooses how a vhost-user or DPDK device spreads the packets of several threads over its queues: by thread, or
by a hash of the flow. Other devices have no such queues; Open vSwitch keeps the setting and ignores it.
"""

from collections.abc import Iterator

from neutrino.agent.l2.desired import Desired
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, port_owner
from neutrino.dataplane.ovsdb.api import PortSettings

TX_STEERING = "other_config:tx-steering"


class PortHints(L2Extension):
    name = "port hints"

    def units(self, desired: Desired) -> Iterator[Unit]:
        for port in desired.ports:
            if port.tx_steering and port.device:
                yield Unit(port_owner(port), (port.device, port.tx_steering), _steering)


def _steering(device: str, steering: str) -> Contribution:
    return Contribution(ports={device: PortSettings({TX_STEERING: steering})})
