"""Agents and availability zones. `scheduling/agents_api.py` has the routes of what is scheduled to agents."""

from neutrino.model.agents import AGENT_TYPES
from neutrino.server import errors
from neutrino.server.api.definition import Attribute, Resource
from neutrino.server.api.types import AnyObject, Bool, Nullable, OneOf, Text, Uuid

_ATTRIBUTES = (  # created by the agent's first report, so nothing can be posted
    Attribute("id", Uuid(), filter=True),
    Attribute("agent_type", Text(), filter=True, filter_as=OneOf(AGENT_TYPES)),
    Attribute("binary", Text(), filter=True),
    Attribute("topic", Text(), filter=True),
    Attribute("host", Text(), filter=True),
    Attribute("admin_state_up", Bool(), put=True, filter=True),
    Attribute("created_at", Text()),
    Attribute("started_at", Text()),
    Attribute("heartbeat_timestamp", Text()),
    Attribute("alive", Bool(), filter=True),
    Attribute("configurations", AnyObject()),
    Attribute("description", Nullable(Text(255)), put=True, filter=True),
    Attribute("availability_zone", Nullable(Text()), filter=True),
    Attribute("resources_synced", Nullable(Bool())),
    Attribute("resource_versions", AnyObject()),
)

AGENT = Resource(
    name="agent",
    collection="agents",
    owned=False,
    bulk=False,
    not_found=errors.AgentNotFound,
    attributes=_ATTRIBUTES,
)

AVAILABILITY_ZONE = Resource(
    name="availability_zone",
    collection="availability_zones",
    path="availability_zones",
    owned=False,
    bulk=False,
    key="name",
    verbs=frozenset({"index"}),
    attributes=(
        Attribute("name", Text(), filter=True),
        Attribute("resource", Text(), filter=True),
        Attribute("state", Text(), filter=True),
    ),
)
