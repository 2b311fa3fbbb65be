"""The service plugin `local_ip`: local IPs and their associations with ports."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.local_ip import LOCAL_IP, PORT_ASSOCIATION
from neutrino.server.local_ip.associations import PortAssociations
from neutrino.server.local_ip.local_ips import OF_PORT, VIEW, LocalIps, check_port_delete, port_changes
from neutrino.server.services import Services
from neutrino.server.view_collection import RowUpdates, ViewCollection

EXTENSIONS = (Extension("local_ip", "Local IP", "Addresses that each host translates to a port of its own."),)


@dataclass(frozen=True)
class LocalIpPlugin:
    collections: Sequence[tuple[Any, ...]]
    extensions: Sequence[Extension] = EXTENSIONS


def build(services: Services) -> LocalIpPlugin:
    db, core = services.db, services.core
    core.ports.delete_checks.append(check_port_delete)
    core.ports.transaction_hooks.append(port_changes)
    core.ports.delete_reads.append(OF_PORT)
    local_ips = LocalIps(db, core.operations, core.networks, core.ports)
    return LocalIpPlugin(
        (
            (LOCAL_IP, local_ips, ViewCollection(db, VIEW), RowUpdates(db, VIEW)),
            (PORT_ASSOCIATION, PortAssociations(db)),
        )
    )
