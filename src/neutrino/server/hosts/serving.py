"""Whether agents with admin_state_up false serve what is placed on them (enable_services_on_agents_with_admin_state_down).

The readers of the feed have no configuration, only a connection: so it is an option of the connections of this process.
Nothing new is scheduled to a disabled agent, whatever the option says.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.db.sql import Condition

_OPTION: Final = "neutrino_disabled_agents_serve"


def let_disabled_agents_serve(db: Database) -> None:
    """For all connections of this process that are opened from now on."""
    db.set_option(_OPTION, True)


def disabled_agents_serve(connection: Connection) -> bool:
    return bool(connection.get_execution_options().get(_OPTION, False))


def serving(connection: Connection) -> Condition:
    """The condition of agents that serve what is placed on them, dead ones among them."""
    return sa.true() if disabled_agents_serve(connection) else t.agents.c.admin_state_up.is_(True)
