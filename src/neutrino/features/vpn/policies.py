"""IKE and IPsec policies: the API. A policy of a connection is neither changed nor deleted."""

from sqlalchemy.engine import Connection

from neutrino.features.vpn.collection import VpnCollection
from neutrino.features.vpn.errors import IKEPolicyInUse, IPsecPolicyInUse, IpsecValidationFailure
from neutrino.features.vpn.tables import ipsec_site_connections
from neutrino.features.vpn.views import IKE_POLICIES, IPSEC_POLICIES
from neutrino.model.objects import Object
from neutrino.server.context import Context
from neutrino.server.db.objects import exists
from neutrino.server.db.session import Database
from neutrino.server.quota.quotas import Quotas

DEFAULT_LIFETIME = {"units": "seconds", "value": 3600}
_c = ipsec_site_connections.c


class Policies(VpnCollection):
    def prepared(self, context: Context, values: Object, before: Object | None = None) -> Object:
        if "lifetime" in values:  # what a request leaves out of it stays
            known = before["lifetime"] if before is not None else DEFAULT_LIFETIME
            values["lifetime"] = {**known, **values["lifetime"]}
        return values


class IkePolicies(Policies):
    kind = "ikepolicy"

    def __init__(self, db: Database, quotas: Quotas) -> None:
        super().__init__(db, IKE_POLICIES, quotas)

    def check(self, connection: Connection, context: Context, after: Object, before: Object | None) -> None:
        if before is not None:
            self.check_delete(connection, before)

    def check_delete(self, connection: Connection, before: Object) -> None:
        if exists(connection, _c.ikepolicy_id == before["id"]):
            raise IKEPolicyInUse(id=before["id"])


class IpsecPolicies(Policies):
    kind = "ipsecpolicy"

    def __init__(self, db: Database, quotas: Quotas) -> None:
        super().__init__(db, IPSEC_POLICIES, quotas)

    def check(self, connection: Connection, context: Context, after: Object, before: Object | None) -> None:
        if after["transform_protocol"] == "ah-esp":  # no IKE daemon of Linux negotiates both
            raise IpsecValidationFailure(resource="IPsec Policy", key="transform_protocol", value="ah-esp")
        if before is not None:
            self.check_delete(connection, before)

    def check_delete(self, connection: Connection, before: Object) -> None:
        if exists(connection, _c.ipsecpolicy_id == before["id"]):
            raise IPsecPolicyInUse(id=before["id"])
