"""Agents. `scheduling/agents_api.py` has the routes of what is scheduled to agents."""

from neutrino.model.agents import AGENT_TYPES
from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import Attribute, Resource

AGENT = Resource(
    name="agent",
    not_found=errors.AgentNotFound,
    attributes=(  # created by the agent's first report, so nothing can be posted
        Attribute("id", t.Uuid(), filter=True, sort=True),
        Attribute("agent_type", t.Text(), filter=True, filter_as=t.OneOf(AGENT_TYPES), sort=True),
        Attribute("binary", t.Text(), filter=True, sort=True),
        Attribute("topic", t.Text(), filter=True, sort=True),
        Attribute("host", t.Text(), filter=True, sort=True),
        Attribute("admin_state_up", t.Bool(), put=True, filter=True, sort=True),
        Attribute("created_at", t.Text(), sort=True),
        Attribute("started_at", t.Text(), sort=True),
        Attribute("heartbeat_timestamp", t.Text(), sort=True),
        Attribute("alive", t.Bool(), filter=True, sort=True),
        Attribute("configurations", t.AnyObject()),
        Attribute("description", t.Nullable(t.Text()), put=True, filter=True, sort=True),
        Attribute("availability_zone", t.Nullable(t.Text()), filter=True),
        Attribute("resources_synced", t.Nullable(t.Bool())),
        Attribute("resource_versions", t.AnyObject()),
    ),
)
