"""The service plugin `local_ip`: local IPs and their associations with ports."""

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.local_ip import LOCAL_IP, PORT_ASSOCIATION
from neutrino.server.db import tables as t
from neutrino.server.local_ip.associations import PortAssociations
from neutrino.server.local_ip.local_ips import OF_PORT, VIEW, LocalIps, check_port_delete, port_changes
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.view_collection import RowUpdates, ViewCollection

EXTENSIONS = (Extension("local_ip", "Local IP", "Addresses that each host translates to a port of its own."),)


def build(services: Services) -> ResourcePlugin:
    db, core = services.db, services.core
    core.ports.delete_checks.append(check_port_delete)
    core.ports.transaction_hooks.append(port_changes)
    core.ports.delete_reads.append(OF_PORT)
    core.cascade.references |= dict.fromkeys((check_port_delete, port_changes), (t.local_ips.c.local_port_id,))
    local_ips = LocalIps(db, core.operations, core.networks, core.ports, services.quotas)
    return ResourcePlugin(
        EXTENSIONS,
        (
            (LOCAL_IP, local_ips, ViewCollection(db, VIEW), RowUpdates(db, VIEW)),
            (PORT_ASSOCIATION, PortAssociations(db)),
        ),
    )
