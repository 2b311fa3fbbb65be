"""The attributes of networks and ports that QoS has, and the policy that new networks of a project get."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.qos import resource_request, use
from neutrino.features.qos.tables import default_qos_policies
from neutrino.model.objects import Object
from neutrino.server import placement
from neutrino.server.api import types
from neutrino.server.api.definition import Attribute, writable
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, scalar
from neutrino.server.ml2.attributes import NetworkAttributes, PortAttributes

POLICY = writable("qos_policy_id", types.UUID_OR_NONE, default=None)
_PROJECT = sa.bindparam("project", type_=sa.String)
_DEFAULT = Lookup(
    sa.select(default_qos_policies.c.qos_policy_id).where(default_qos_policies.c.project_id == _PROJECT), scalar
)
_OF_NETWORK = sa.select(t.networks.c.qos_policy_id).where(t.networks.c.id == t.ports.c.network_id).scalar_subquery()


def _of_new_network(connection: Connection, context: Context, values: Object, default: object) -> Object:
    policy_id = values.get("qos_policy_id")
    if policy_id is not None:
        use.check_policy(connection, context, policy_id)
    return {"qos_policy_id": policy_id or default}


def _of_new_port(values: Object, network: Object) -> Object:
    return {
        "qos_policy_id": values.get("qos_policy_id"),
        "qos_network_policy_id": network["qos_policy_id"],
        resource_request.NAME: None,
    }


NETWORK_ATTRIBUTES = NetworkAttributes(
    definitions=(POLICY,),
    reading=lambda project: _DEFAULT(project=project),
    of_new_network=_of_new_network,
    check_update=use.check_network_update,
)
PORT_ATTRIBUTES = PortAttributes(
    definitions=(
        POLICY,
        Attribute("qos_network_policy_id", types.UUID_OR_NONE),
        Attribute(resource_request.NAME, types.Nullable(types.AnyObject()), guarded=True),
    ),
    columns={"qos_network_policy_id": _OF_NETWORK, resource_request.NAME: sa.null()},
    of_new_port=_of_new_port,
    check_new=use.check_new_ports,
    check_update=use.check_port_update,
    needs={resource_request.NAME: resource_request.NEEDS},
    computed=placement.guarantees,  # else Nova would ask for what Placement does not have
    complete=resource_request.complete,
)
