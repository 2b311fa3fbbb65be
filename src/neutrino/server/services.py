"""How plugins and drivers are built: loaded by entry point, plugins with the parts of the server that they need."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stevedore import driver, exception

from neutrino.configuration.options import Configuration
from neutrino.model.objects import Object, Values
from neutrino.server.api.definition import Extension, Resource
from neutrino.server.api.pipeline import Notify
from neutrino.server.api.routes import Route
from neutrino.server.context import Context
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from neutrino.server.ml2.attributes import NetworkAttributes, PortAttributes
from neutrino.server.ml2.cascade import Cascade
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.quota.quotas import Quotas
from neutrino.server.scheduling.scheduler import AgentScheduler
from neutrino.server.securitygroups.groups import SecurityGroups
from neutrino.server.uses import NetworkUse

if TYPE_CHECKING:
    from neutrino.server.ml2.build import Core  # which is built with the services of this module

Publish = Callable[[str, Object, str], None]  # takes an event type, a payload and the id of a publisher


def refuse(context: Context, rule: str, target: Values) -> bool:
    """Without an authorizer, as in the feed process, which serves no requests, a policy rule allows nothing."""
    return False


def ignore(event_type: str, payload: Object, context: Context) -> None:
    """Without a notifier, notifications are dropped."""


@dataclass(frozen=True)
class CoreServices:
    """What the core plugin is built with."""

    conf: Configuration
    db: Database
    quotas: Quotas
    registry: Registry
    security_groups: SecurityGroups
    # Called after the commit with a port before and after its change, for Nova.
    port_changed: Callable[[Object | None, Object | None], None]
    # The same with ports whose addresses have changed by other objects, such as floating IPs.
    addresses_changed: Callable[[Sequence[Object]], None]
    has_added_ranges: bool = False  # segmentation ids are also chosen from rows of `network_segment_ranges`
    network_attributes: Sequence[NetworkAttributes] = ()  # of features
    port_attributes: Sequence[PortAttributes] = ()


@dataclass(frozen=True, kw_only=True)
class Services(CoreServices):
    """What features are built with."""

    core: "Core"
    notify: Notify = ignore  # sends a notification of a request
    # Sends a notification of another publisher, such as an agent; in the feed process.
    publish: Publish = lambda event_type, payload, publisher: None
    # Whether a policy rule allows the caller something on an object, where it is not the rule of the request.
    allows: Callable[[Context, str, Values], bool] = refuse


@dataclass(frozen=True)
class ResourcePlugin:
    """What a feature offers in one server: resources, and what it does in the processes of the API."""

    extensions: Sequence[Extension] = ()  # beyond those that the feature declares
    collections: Sequence[tuple[Resource, object]] = ()  # each a resource with the collection that serves it
    ports: Sequence[PortUse] = ()  # the same: uses that need the services
    networks: Sequence[NetworkUse] = ()
    begin: Callable[[], object] = lambda: None  # called by each process of a server when it starts
    schedulers: Sequence[AgentScheduler] = ()  # of its objects on agents
    cascades: Sequence[Cascade] = ()  # its parts in cascading deletes of networks
    routes: Callable[[Authorizer], Sequence[Route]] = lambda authorizer: ()  # paths beside those of resources


def load(group: str, name: str) -> Any:
    """The object of entry point `name` in `group`; an error names both if no installed package offers it."""
    try:
        return driver.DriverManager(group, name, invoke_on_load=False).driver
    except exception.NoMatches:
        raise ValueError(f"no package offers {name!r} as {group}") from None
