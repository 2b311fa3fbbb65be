"""Logs of security and firewall groups: which accepted connections and dropped packets hosts write down."""

from neutrino.features.log import takeover
from neutrino.features.log.feed import FEED
from neutrino.features.log.logs import (
    LoggableResources,
    LogResourceNotFound,
    Logs,
    delete_of_firewall_group,
    delete_of_group,
    delete_of_port,
    port_changes,
)
from neutrino.features.log.tables import logs
from neutrino.features.log.types import FIREWALL_GROUP, SECURITY_GROUP
from neutrino.server import errors
from neutrino.server.api import types
from neutrino.server.api.definition import REQUIRED, Attribute, Extension, Resource, creatable, writable
from neutrino.server.api.resources.common import IDENTITY, standard
from neutrino.server.features import Feature
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.policy.rules import ADMIN, crud
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.uses import RouterUse

ACCEPT, DROP, ALL = "ACCEPT", "DROP", "ALL"

LOG = Resource(
    name="log",
    path="log/logs",
    not_found=LogResourceNotFound,
    hidden=errors.HTTPNotFound,
    attributes=(
        *IDENTITY,
        creatable("resource_type", types.Text(255), default=REQUIRED, searchable=True),
        creatable("resource_id", types.UUID_OR_NONE, default=None, searchable=True),
        creatable("target_id", types.UUID_OR_NONE, default=None, searchable=True),
        creatable("event", types.OneOf((ACCEPT, DROP, ALL)), default=ALL, filter=True),
        writable("enabled", types.Bool(), default=True, searchable=True),
        *standard(tags=None),
    ),
)

LOGGABLE_RESOURCE = Resource(
    name="loggable_resource",
    path="log/loggable-resources",
    key="type",
    verbs=frozenset({"index"}),
    attributes=(Attribute("type", types.Text()),),
)


def build(services: Services) -> ResourcePlugin:
    has_firewalls = "firewall_v2" in services.conf.service_plugins
    types_ = (SECURITY_GROUP, *((FIREWALL_GROUP,) if has_firewalls else ()))
    served = (LOG, Logs(services.db, types_))
    return ResourcePlugin(collections=(served, (LOGGABLE_RESOURCE, LoggableResources(types_))))


FEATURES = (
    Feature(
        name="log",
        neutron_plugin="neutron.services.logapi.logging_plugin.LoggingPlugin",
        reads=("firewall_v2",),
        extensions=(Extension("logging", "Logging API Extension", "Hosts log packets that groups accept or drop."),),
        takeover=takeover.FAMILIES,
        build=build,
        policy={**crud("log", ADMIN, ADMIN), "get_loggable_resource": ADMIN},
        ports=(PortUse(columns=(logs.c.target_id,), changes=port_changes),),
        security_groups=(delete_of_group,),
        firewall_groups=(delete_of_firewall_group,),
        routers=(RouterUse(write_interface_removal=delete_of_port),),
        feed=FEED,
    ),
)
