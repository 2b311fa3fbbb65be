"""Automatic association: ports of instances join the default firewall group of their project when they are bound.

Off by default (`auto_associate_default_firewall_group`): ports are then created and bound without a query about firewalls.
"""

from dataclasses import dataclass

from sqlalchemy.engine import Connection

from neutrino.features.firewall.default_groups import DefaultGroups
from neutrino.features.firewall.groups import add_ports, is_supported
from neutrino.features.firewall.tables import group_ports
from neutrino.model.objects import Object
from neutrino.server.api.resources.port import COMPUTE_OWNER
from neutrino.server.context import Context
from neutrino.server.db.objects import exists
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.ports.uses import Write

NOT_BOUND = (VIF_UNBOUND, VIF_FAILED)


@dataclass(frozen=True)
class AutoAssociation:
    defaults: DefaultGroups

    def port_changes(
        self, connection: Connection, context: Context, before: Object | None, after: Object | None
    ) -> Write | None:
        """The write that puts a port into the default group in the transaction that binds it; None if it does not join."""
        if after is None or not after["device_owner"].startswith(COMPUTE_OWNER) or not after["project_id"]:
            return None
        was_bound = before is not None and before["binding:vif_type"] not in NOT_BOUND
        if was_bound or after["binding:vif_type"] in NOT_BOUND or not is_supported(after):
            return None
        if before is not None and exists(connection, group_ports.c.port_id == after["id"]):
            return None
        group_id = self.defaults.ensure(after["project_id"])

        def write(tx: Transaction) -> None:
            # Not a new revision of the group: what hosts apply of it stays the same.
            add_ports(tx, group_id, [after["id"]])

        return write
