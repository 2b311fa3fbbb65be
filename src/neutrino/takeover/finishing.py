"""The end of a takeover: there is no way back to Neutron any more, and what is left of its agents is removed."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction, now
from neutrino.takeover.checks import Refused
from neutrino.takeover.opening import Import, Phase, listed, read_state
from neutrino.takeover.writer import referring

BY_HAND = (
    "on hosts: packages and files of Neutron's agents; the snapshots of `neutrino takeover host`: takeover/ in state_path",
    "on controllers: Neutron's servers, their packages and files, and their entries in the load balancer",
    "in RabbitMQ: Neutron's user and queues, as q-plugin, q-l3-plugin, q-reports-plugin, dhcp_agent, l3_agent",
)


@dataclass(frozen=True)
class Finished:
    """What was done, and what is left to do by hand."""

    last: Import
    removed: tuple[str, ...]  # agents of Neutron that reported nothing since the opening
    serving: tuple[str, ...]  # the same, which objects are still placed on

    def to_text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"finished at {self.last.concluded_at}: `neutrino takeover export` is refused from now on"
        yield f"agents of Neutron removed, which have not reported since the opening: {listed(self.removed) or 'none'}"
        if self.serving:
            yield f"kept, as networks or routers are placed on them: {listed(self.serving)}"
            yield "  servers move these to other agents; delete the agents then: openstack network agent delete ID"
        yield "to remove by hand:"
        yield from (f"  {line}" for line in BY_HAND)
        yield f"  Neutron's database: {self.last.source}, after a last backup"


def finish(db: Database, despite: Collection[str] = ()) -> Finished:
    """Record the end, if requests write here and all hosts are converted but those of `despite`; Refused otherwise."""
    state = read_state(db)
    match state.phase:
        case Phase.NONE:
            raise Refused("nothing was imported: this database is no copy of Neutron's, and there is nothing to finish")
        case Phase.IMPORTED | Phase.FROZEN:
            raise Refused("requests do not write here yet: run `neutrino takeover open` first")
        case Phase.CLOSED | Phase.EXPORTED:
            raise Refused(
                "an export has given this cloud back to Neutron: run `neutrino takeover open` first if requests are to "
                "write here again"
            )
        case Phase.FINISHED:
            raise Refused(f"it was finished already, at {state.imports[-1].concluded_at}")
    left = [host for host in state.left if host not in despite]
    if left:
        raise Refused(
            f"{len(left)} hosts have Neutron's agents: {listed(left)}. Convert them, delete their agents, or name those "
            "that are out of use with --despite-hosts"
        )
    opened_at = max(one.opened_at or "" for one in state.imports)

    def attempt() -> tuple[tuple[str, ...], tuple[str, ...]]:
        with db.transaction() as tx:
            tx.write(sa.update(t.takeovers).values(concluded_at=now()))
            return _remove_agents(tx, opened_at)

    removed, serving = db.retrying(attempt)
    return Finished(read_state(db).imports[-1], removed, serving)


def _remove_agents(tx: Transaction, opened_at: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Delete agents that have not reported since the opening; those with objects on them are only named."""
    c = t.agents.c
    silent = (
        sa.select(c.id, c.agent_type, c.host).where(c.heartbeat_timestamp < opened_at).order_by(c.host, c.agent_type)
    )
    removed, serving = [], []
    for row in tx.execute(silent).mappings().all():
        key, name = row["id"], f"{row['agent_type']} on {row['host']}"
        uses = [sa.select(sa.literal(1)).where(column == key).limit(1) for column in referring(t.agents)]
        if any(tx.execute(use).first() for use in uses):
            serving.append(name)
            continue
        tx.execute(sa.delete(t.agents).where(c.id == key))
        tx.record("agent", key, deleted=True)
        removed.append(name)
    return tuple(removed), tuple(serving)
