"""Live migrations: the ports of this host that wait for their instance, and those that it has reached. Pure.

A port whose binding to this host is not active waits for its instance. Its packets are already wired, and packets to it
are not delivered: as long as the instance runs on the source, they would queue up in its tap, and arrive late and twice.
Its first packet, QEMU's announcement, says that it runs here now. From then on the port is wired as one with an active
binding, before Nova's request to activate it has reached the server.

A port whose binding was active here before has been left by its instance, and must not talk. None of this outlives the
agent: after a restart a port that was left waits again until its binding is deleted, and the next packet of an instance
that has arrived says so once more.
"""

from collections.abc import Mapping

from neutrino.model import state


class Migrations:
    def __init__(self) -> None:
        self._active: set[str] = set()  # ports that are or were active here
        self._arrived: set[str] = set()

    def waiting(self, ports: Mapping[str, state.Port]) -> Mapping[str, bool]:
        """The ports that wait for their instance, and whether it has arrived. `ports`: all that are bound to this host."""
        active = {key for key, port in ports.items() if port.active}
        self._active = (self._active & ports.keys()) | active
        found = ports.keys() - self._active
        self._arrived &= found
        return {key: key in self._arrived for key in found}

    def arrived(self, port_id: str, ports: Mapping[str, state.Port]) -> bool:
        """The instance of a port has sent a packet here; subports of a trunk come with their parent. Whether it is new."""
        if port_id in self._arrived:
            return False
        self._arrived.add(port_id)
        port = ports.get(port_id)
        if port is not None and port.trunk_id:
            self._arrived |= {key for key, other in ports.items() if other.trunk_id == port.trunk_id}
        return True
