"""The hosts of a takeover, as the database has them: which are converted, and what decides their order."""

from collections import defaultdict
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.features.router.tables import router_l3_agents
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.takeover.fleet.order import HaRouter, Layout, one_by_one
from neutrino.takeover.opening import State, read_state


@dataclass(frozen=True)
class Cloud:
    state: State
    layout: Layout

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset((*self.state.converted, *self.state.left))

    def to_json(self) -> Object:
        """For programs. `left`: hosts with Neutron's agents, in the order in which they are converted."""
        return {
            "phase": str(self.state.phase),
            "converted": list(self.state.converted),
            "left": list(one_by_one(self.state.left, self.layout)),
            "network_nodes": sorted(self.layout.network_nodes),
        }


def read_cloud(db: Database) -> Cloud:
    return Cloud(read_state(db), read_layout(db))


def read_layout(db: Database) -> Layout:
    """HA states are those of the last import, or of the last report of a host that has our agents."""
    r, d, agents = router_l3_agents.c, t.network_dhcp_agents.c, t.agents.c
    routers = sa.select(r.router_id, agents.host, r.ha_state).join_from(
        router_l3_agents, t.agents, agents.id == r.agent_id
    )
    networks = sa.select(agents.host).join_from(t.network_dhcp_agents, t.agents, agents.id == d.agent_id).distinct()
    states = defaultdict[str, dict[str, str]](dict)
    with db.read() as connection:
        nodes = set(connection.execute(networks).scalars())
        for row in connection.execute(routers):
            nodes.add(row.host)
            if row.ha_state is not None:
                states[row.router_id][row.host] = row.ha_state
    found = [HaRouter(key, hosts) for key, hosts in sorted(states.items()) if len(hosts) > 1]
    return Layout(frozenset(nodes), found)
