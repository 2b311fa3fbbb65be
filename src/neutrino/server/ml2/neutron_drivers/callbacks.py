"""neutron_lib.callbacks: events of networks, subnets and ports are published to drivers that subscribe to them.

Others are not; the log of the start names each subscription that will never be called.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from neutron_lib import context as neutron_context
from neutron_lib.callbacks import events, registry, resources
from neutron_lib.plugins import directory

from neutrino.model.objects import Values
from neutrino.server.ml2.driver_api import DriverContext
from neutrino.server.ml2.neutron_drivers.contexts import as_neutron
from neutrino.server.ml2.neutron_drivers.provided.objects import SubPort, Trunk

LOG = logging.getLogger(__name__)
RESOURCES = {"network": resources.NETWORK, "subnet": resources.SUBNET, "port": resources.PORT}
EVENTS = {
    "precommit": {
        "create": events.PRECOMMIT_CREATE,
        "update": events.PRECOMMIT_UPDATE,
        "delete": events.PRECOMMIT_DELETE,
    },
    "postcommit": {"create": events.AFTER_CREATE, "update": events.AFTER_UPDATE, "delete": events.AFTER_DELETE},
}
PUBLISHED = {
    (resource, event) for resource in RESOURCES.values() for phase in EVENTS.values() for event in phase.values()
}
OF_TRUNKS = {"trunk": resources.TRUNK, "subports": resources.SUBPORTS}
AFTER = {"create": events.AFTER_CREATE, "delete": events.AFTER_DELETE}
PUBLISHED |= {(resource, event) for resource in OF_TRUNKS.values() for event in AFTER.values()}
PUBLISHED |= {(resource, events.AFTER_INIT) for resource in (resources.PROCESS, resources.TRUNK_PLUGIN)}
_subscribed = set[tuple[str, str]]()  # resources and events, of this process
_subscribe: Callable[..., None] = registry.subscribe


def is_awaited(phase: str, context: DriverContext) -> bool:
    """Whether some driver has subscribed to the change: to make its payload takes milliseconds."""
    return (RESOURCES[context.kind], EVENTS[phase][context.operation]) in _subscribed


def publish(phase: str, context: DriverContext) -> None:
    """Tell subscribers of a change. What they raise in a precommit stops the write; afterwards it is logged."""
    states = [context.current] if context.original is None else [context.original, context.current]
    payload = events.DBEventPayload(
        neutron_context.get_admin_context(),
        resource_id=context.current["id"],
        states=tuple(as_neutron(state) for state in states),
    )
    event = EVENTS[phase][context.operation]
    registry.publish(RESOURCES[context.kind], event, directory.get_plugin(), payload=payload)


class TrunkPlugin:
    """What trunk drivers register with: the trigger of the event that the plugin is there."""

    def __init__(self) -> None:
        self.registered_drivers: dict[str, Any] = {}

    def register_driver(self, driver: Any) -> None:
        self.registered_drivers[driver.name] = driver


def publish_trunk(kind: str, happened: str, trunk: Values, subports: Sequence[Values]) -> None:
    """Tell subscribers of a trunk that was created or deleted, or of subports that have come to one, or gone.

    What they raise is logged.
    """
    several = [SubPort({**one, "trunk_id": trunk["id"]}) for one in subports]
    shown = {**trunk, "sub_ports": [SubPort({**one, "trunk_id": trunk["id"]}) for one in trunk["sub_ports"]]}
    payload = events.DBEventPayload(
        neutron_context.get_admin_context(),
        resource_id=trunk["id"],
        states=(Trunk(shown),),
        metadata={"subports": several} if kind == "subports" else {},
    )
    registry.publish(OF_TRUNKS[kind], AFTER[happened], TRUNK_PLUGIN, payload=payload)


TRUNK_PLUGIN = TrunkPlugin()


def process_begins() -> None:
    registry.publish(resources.TRUNK_PLUGIN, events.AFTER_INIT, TRUNK_PLUGIN, payload=events.EventPayload(None))
    registry.publish(resources.PROCESS, events.AFTER_INIT, directory.get_plugin(), payload=events.EventPayload(None))


def watch_subscriptions() -> None:
    """Log subscriptions to what is not published. Replaces a function that drivers and decorators look up by name."""
    registry.subscribe = _checked_subscribe


def _checked_subscribe(callback: Callable[..., Any], resource: str, event: str, *args: Any, **options: Any) -> None:
    if (resource, event) not in PUBLISHED:
        name = f"{getattr(callback, '__module__', '')}.{getattr(callback, '__qualname__', callback)}"
        LOG.warning("%s subscribes to %s of %s, which is never published here", name, event, resource)
    _subscribed.add((resource, event))
    _subscribe(callback, resource, event, *args, **options)
