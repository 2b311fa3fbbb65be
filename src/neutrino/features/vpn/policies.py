"""IKE and IPsec policies: the API. A policy of a connection is neither changed nor deleted."""

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from neutrino.features.vpn.errors import IKEPolicyInUse, IPsecPolicyInUse, IpsecValidationFailure
from neutrino.features.vpn.tables import ipsec_site_connections
from neutrino.model.objects import Object
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db.objects import exists

DEFAULT_LIFETIME = {"units": "seconds", "value": 3600}


class Policies(Collection):
    def new(self, context: Context, values: Object) -> Object:
        return super().new(context, _with_lifetime(values, DEFAULT_LIFETIME))

    def changed(self, context: Context, before: Object, values: Object) -> Object:
        return {**before, **_with_lifetime(values, before["lifetime"])}

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        self.check_delete(connection, context, before)


def _with_lifetime(values: Object, known: Object) -> Object:
    """What a request leaves out of the lifetime stays."""
    return {**values, "lifetime": {**known, **values["lifetime"]}} if "lifetime" in values else values


class IkePolicies(Policies):
    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        if exists(connection, ipsec_site_connections.c.ikepolicy_id == before["id"]):
            raise IKEPolicyInUse(id=before["id"])


class IpsecPolicies(Policies):
    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for policy in objects:
            _check_protocol(policy)

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        _check_protocol(after)
        super().check_update(connection, context, before, after)

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        if exists(connection, ipsec_site_connections.c.ipsecpolicy_id == before["id"]):
            raise IPsecPolicyInUse(id=before["id"])


def _check_protocol(policy: Object) -> None:
    if policy["transform_protocol"] == "ah-esp":  # no IKE daemon of Linux negotiates both
        raise IpsecValidationFailure(resource="IPsec Policy", key="transform_protocol", value="ah-esp")
