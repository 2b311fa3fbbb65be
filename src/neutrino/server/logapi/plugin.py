"""The service plugin `log`: logs of security groups."""

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.log import LOG, LOGGABLE_RESOURCE
from neutrino.server.db import tables as t
from neutrino.server.logapi.logs import VIEW, LoggableResources, Logs, delete_of_group, port_changes
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.view_collection import RowUpdates

EXTENSIONS = (Extension("logging", "Logging API Extension", "Hosts log packets that security groups accept or drop."),)


def build(services: Services) -> ResourcePlugin:
    services.core.ports.uses.append(PortUse((t.logs.c.target_id,), changes=port_changes))
    services.security_groups.delete_hooks.append(delete_of_group)
    logs = (LOG, Logs(services.db), RowUpdates(services.db, VIEW))
    return ResourcePlugin(EXTENSIONS, (logs, (LOGGABLE_RESOURCE, LoggableResources())))
