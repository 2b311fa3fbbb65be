"""The service plugin `log`: logs of security groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.log import LOG, LOGGABLE_RESOURCE
from neutrino.server.logapi.logs import OF_PORT, VIEW, LoggableResources, Logs, delete_of_group, port_changes
from neutrino.server.services import Services
from neutrino.server.view_collection import RowUpdates

EXTENSIONS = (Extension("logging", "Logging API Extension", "Hosts log packets that security groups accept or drop."),)


@dataclass(frozen=True)
class LoggingPlugin:
    collections: Sequence[tuple[Any, ...]]
    extensions: Sequence[Extension] = EXTENSIONS


def build(services: Services) -> LoggingPlugin:
    services.core.ports.transaction_hooks.append(port_changes)
    services.core.ports.delete_reads.append(OF_PORT)
    services.security_groups.delete_hooks.append(delete_of_group)
    logs = (LOG, Logs(services.db), RowUpdates(services.db, VIEW))
    return LoggingPlugin((logs, (LOGGABLE_RESOURCE, LoggableResources())))
