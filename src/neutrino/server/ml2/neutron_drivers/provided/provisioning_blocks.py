"""`neutron.db.provisioning_blocks`: what a port waits for before it is ACTIVE (`server/ml2/ports/provisioning.py`)."""

from typing import Any

from neutron_lib.callbacks import resources

from neutrino.server.ml2.neutron_drivers import reading
from neutrino.server.ml2.neutron_drivers.runtime import NotProvided

PROVISIONING_COMPLETE = "provisioning_complete"
DHCP_ENTITY = "DHCP"
L2_AGENT_ENTITY = "L2"


def add_provisioning_component(context: Any, object_id: str, object_type: str, entity: str) -> None:
    _check(object_type)
    reading.add_component(object_id, entity)


def remove_provisioning_component(
    context: Any, object_id: str, object_type: str, entity: str, standard_attr_id: Any = None
) -> bool:
    _check(object_type)
    return reading.remove_component(object_id, entity)


def provisioning_complete(context: Any, object_id: str, object_type: str, entity: str) -> None:
    _check(object_type)
    reading.complete(object_id, entity)


def is_object_blocked(context: Any, object_id: str, object_type: str) -> bool:
    _check(object_type)
    return reading.is_blocked(object_id)


def _check(object_type: str) -> None:
    if object_type != resources.PORT:
        raise NotProvided(f"provisioning blocks of {object_type!r}: only ports have them")
