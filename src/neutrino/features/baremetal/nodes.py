"""Reports Ironic's nodes to the registry of agents, and forgets those that Ironic has no ports of any more.

Each API process has the thread, and the first one that finds the last report old enough does the work: if Ironic or that
process is away, nodes are dead after `agent_down_time`, as those of an agent that stopped.
"""

import logging
import random
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from neutrino.features.baremetal.ironic import NodePort, ReadPorts, Unavailable
from neutrino.model.agents import BARE_METAL, BRIDGE_MAPPINGS, LOG_AGENT_HEARTBEATS, AgentState
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.hosts.registry import Registry, timestamp

LOG = logging.getLogger(__name__)
BINARY, TOPIC = "ironic-neutron-agent", "N/A"
BATCH = 200  # nodes that one transaction reports
FRESH = 0.7  # of the interval: a younger report of another process is enough


def states(ports: Iterable[NodePort]) -> list[AgentState]:
    """One agent for each node, on a host named as the node, with the physical networks of its ports."""
    mappings: dict[str, dict[str, str]] = {}
    for port in ports:
        own = mappings.setdefault(port.node, {})
        if port.physical_network is not None:
            own[port.physical_network] = "yes"  # as ironic-neutron-agent reports it
    return [
        AgentState(BARE_METAL, BINARY, node, TOPIC, configurations={BRIDGE_MAPPINGS: own, LOG_AGENT_HEARTBEATS: False})
        for node, own in sorted(mappings.items())
    ]


@dataclass(eq=False)
class NodeReporter:
    db: Database
    registry: Registry
    ports: ReadPorts
    interval: float
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _is_away: bool = field(default=False, init=False)

    def begin(self) -> None:
        threading.Thread(target=self._run, daemon=True, name="bare-metal nodes").start()

    def close(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self.interval * (0.2 + 0.3 * random.random())):  # not all processes at once
            try:
                self.report()
            except Exception:
                LOG.exception("bare-metal nodes are not reported")

    def report(self) -> bool:
        """Whether this process has reported: no other one has done it recently, and Ironic has answered."""
        if self.db.is_frozen() or self._is_reported():
            return False
        try:
            found = states(self.ports())
        except Unavailable as why:
            if not self._is_away:
                LOG.warning("bare-metal nodes are not reported until Ironic answers: %s", why)
            self._is_away = True
            return False
        self._is_away = False
        for start in range(0, len(found), BATCH):
            self.registry.report_all(found[start : start + BATCH])
        self._forget({state.host for state in found})
        return True

    def _is_reported(self) -> bool:
        last = max(self.registry.heartbeats(BARE_METAL), default="")
        return last > timestamp(self.registry.clock() - FRESH * self.interval)

    def _forget(self, nodes: set[str]) -> None:
        with self.db.read() as connection:
            known = connection.execute(sa.select(t.agents.c.id, t.agents.c.host).where(_OURS)).all()
        gone: Sequence[str] = [row.id for row in known if row.host not in nodes]
        for key in gone:
            try:
                self._delete(key)
            except errors.NotFound:  # another process was first
                continue

    @retried
    def _delete(self, key: str) -> None:
        with self.db.transaction() as tx:
            if tx.execute(sa.delete(t.agents).where(t.agents.c.id == key)).rowcount:
                tx.record("agent", key, deleted=True)


_OURS = sa.and_(t.agents.c.agent_type == BARE_METAL, t.agents.c.binary == BINARY)
