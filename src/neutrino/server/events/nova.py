"""External events to Nova: which ones a change causes (pure), and their delivery.

Nova waits for `network-vif-plugged` while it starts a server, so a missing event delays a boot by minutes. It caches each
server's addresses, and `network-changed` makes it read the port again: it is sent for what the cache contains (addresses,
MAC, binding, floating IPs, which ports a server has), and not for what Nova reads when it needs it, such as security
groups, names or DNS.

Only ports of servers concern Nova: a device_owner that starts with `compute:` and a device_id that is a server's id.
Baremetal nodes of Nova have such ports too; ports with `baremetal:` are Ironic's.

Connection errors, 429 and 5xx are retried as long as Nova waits for a port. An event for a server that Nova does not know
(404, or 404 for one event of a 207) is dropped, with a warning for `network-vif-plugged`.
"""

import contextlib
import logging
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from neutrino.configuration.options import Configuration
from neutrino.model.objects import Object, Values
from neutrino.server.api.resources.port import COMPUTE_OWNER
from neutrino.server.events.delivery import DeliveryOptions, DeliveryQueue, Undelivered
from neutrino.server.events.keystone import forget_catalogue, is_configured, session_from_conf

LOG = logging.getLogger(__name__)

# --- which events -----------------------------------------------------------------------------------------------------

VIF_PLUGGED, VIF_UNPLUGGED, VIF_DELETED = "network-vif-plugged", "network-vif-unplugged", "network-vif-deleted"
NETWORK_CHANGED = "network-changed"
ABOUT_STATUS = (VIF_PLUGGED, VIF_UNPLUGGED)  # the others are about a port's data
COMPLETED, FAILED = "completed", "failed"
# Port attributes, besides the fixed IPs, that Nova caches.
_BINDING = ("binding:vnic_type", "binding:profile", "binding:vif_type", "binding:vif_details")
CACHED_BY_NOVA = ("device_id", "mac_address", *_BINDING)
Resource = Values
_SERVER_ID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


class NovaEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One external event, encoded as Nova's API has it. Of two equal ones, one is redundant."""

    name: str
    server_uuid: str
    tag: str
    status: str | None = None


def is_server_port(port: Resource) -> bool:
    """Whether a server of Nova owns the port."""
    owner, device = port.get("device_owner") or "", port.get("device_id") or ""
    return owner.startswith(COMPUTE_OWNER) and _SERVER_ID.fullmatch(device) is not None


def events_for_port(before: Resource | None, after: Resource | None) -> list[NovaEvent]:
    """The events of a port that was created (no `before`), updated, or deleted (no `after`)."""
    if after is None:
        return [_event(VIF_DELETED, before)] if before is not None and is_server_port(before) else []
    if not is_server_port(after):
        return []
    events = _status_events(before.get("status") if before is not None else None, after)
    if before is not None and _cached(before) != _cached(after):
        events.append(_event(NETWORK_CHANGED, after))
    return events


def events_for_addresses(ports: Iterable[Resource]) -> list[NovaEvent]:
    """The events of ports whose addresses have changed, though not the ports: by floating IPs."""
    return [_event(NETWORK_CHANGED, port) for port in ports if is_server_port(port)]


def _status_events(old: str | None, port: Resource) -> list[NovaEvent]:
    new = port.get("status")
    if new == old:
        return []
    if new == "ACTIVE":
        return [_event(VIF_PLUGGED, port, COMPLETED)]
    # Only from ACTIVE: Nova is notified of an unplug that it has seen plugged.
    if new == "DOWN" and old == "ACTIVE":
        return [_event(VIF_UNPLUGGED, port, COMPLETED)]
    # While Nova waits for the port, a failed event ends the boot at once instead of after its timeout.
    if new == "ERROR" and old != "ACTIVE":
        return [_event(VIF_PLUGGED, port, FAILED)]
    return []


def _event(name: str, port: Resource, status: str | None = None) -> NovaEvent:
    return NovaEvent(name, port["device_id"], port["id"], status)


def _cached(port: Resource) -> tuple[object, ...]:
    addresses = {(ip.get("subnet_id"), ip.get("ip_address")) for ip in port.get("fixed_ips") or ()}
    return (addresses, *(port.get(name) or None for name in CACHED_BY_NOVA))  # "" and {} are as good as absent


# --- delivery -----------------------------------------------------------------------------------------------------

GROUP = "nova"
EVENTS_PATH = "/os-server-external-events"
# Retried as long as Nova waits for a port; later the event is of no use, and Nova repairs its cache itself.
DELIVERY = DeliveryOptions(retry_for=300.0)


class NovaAnswer(msgspec.Struct):
    """Nova's response to one request: the status, and the events with a `code` each."""

    status: int
    events: list[Object] = []
    request_id: str = ""


class NovaUnavailable(Exception):
    """There was no response: no connection, no token, or no endpoint. Another attempt may succeed."""


Post = Callable[[list[dict[str, str]]], NovaAnswer]


@dataclass(eq=False)
class NovaNotifier:
    """Sends events to Nova in order, from a background thread. It neither blocks nor raises.

    An event is sent as soon as the thread is free. Events that gather during a request are merged if equal and sent in the
    next one: few requests under load, and no delay without load.
    """

    post: Post
    status_changes: bool = True
    data_changes: bool = True
    delivery: DeliveryOptions = DELIVERY

    def __post_init__(self) -> None:
        self.queue = DeliveryQueue("events for Nova", self._deliver, self.delivery, merge_equal=True)

    def send(self, events: Iterable[NovaEvent]) -> None:
        """Queue the events that are enabled in the configuration, and return."""
        for event in events:
            if self.status_changes if event.name in ABOUT_STATUS else self.data_changes:
                self.queue.put(event)

    def _deliver(self, batch: Sequence[NovaEvent]) -> Undelivered[NovaEvent] | None:
        try:
            answer = self.post(msgspec.to_builtins(batch))
        except NovaUnavailable as error:
            return Undelivered(batch, str(error))
        # About Nova's state, and not about the events.
        if answer.status >= 500 or answer.status == 429:
            return Undelivered(batch, f"HTTP {answer.status}")
        _log_refused(batch, answer)
        return None


MAX_LOGGED = 3  # events that a line names
NOT_FOUND = (
    "Nova answered 404 for %d events, which are dropped: %s (%s). Either the servers were deleted meanwhile, or the user "
    "of [nova] lacks the role admin, and Nova looks for the servers in that user's project alone: then instances stay in "
    "BUILD until Nova's vif_plugging_timeout. Grant it: openstack role add --user USER --project PROJECT admin"
)


def _log_refused(batch: Sequence[NovaEvent], answer: NovaAnswer) -> None:
    """Log the events that Nova did not accept.

    A server that Nova does not know has been deleted, or belongs to another project than the user of `[nova]`, who is not
    an administrator: then Nova answers 404 for every event, and boots wait for `network-vif-plugged` until their timeout.
    """
    if answer.status == 404:
        events = ", ".join(sorted({f"{event.name} for server {event.server_uuid}" for event in batch})[:MAX_LOGGED])
        # Nova waits for this one alone; the others often concern a server that was deleted a moment ago.
        is_awaited = any(event.name == VIF_PLUGGED for event in batch)
        LOG.log(logging.WARNING if is_awaited else logging.INFO, NOT_FOUND, len(batch), events, answer.request_id)
    elif answer.status >= 300:
        LOG.error("Nova refused %d events with HTTP %d (%s)", len(batch), answer.status, answer.request_id)
    else:
        for event in (event for event in answer.events if event.get("code", 200) != 200):
            is_lost = event.get("code") != 404 or event.get("name") == VIF_PLUGGED
            level = logging.WARNING if is_lost else logging.INFO
            values = (event.get(name) for name in ("name", "tag", "server_uuid", "code"))
            LOG.log(level, "Nova dropped %s of port %s for server %s with code %s (%s)", *values, answer.request_id)


def nova_notifier_from_conf(conf: Configuration) -> NovaNotifier:
    """The configured notifier; invalid options are an error at the start of the server.

    Without credentials in `[nova]` nothing is sent: a server without Nova is normal.
    """
    status_changes, data_changes = conf.notify_nova_on_port_status_changes, conf.notify_nova_on_port_data_changes
    post = keystone_poster(conf) if (status_changes or data_changes) and is_configured(conf, GROUP) else None
    if post is None:  # `send` drops everything, and nothing is posted
        return NovaNotifier(lambda events: NovaAnswer(404), status_changes=False, data_changes=False)
    return NovaNotifier(post, status_changes=status_changes, data_changes=data_changes)


def report_unconfigured(conf: Configuration) -> None:
    """Log that Nova is not notified for lack of credentials; a warning if a switch is in the configuration."""
    if is_configured(conf, GROUP) or not (
        conf.notify_nova_on_port_status_changes or conf.notify_nova_on_port_data_changes
    ):
        return
    asked = any(name.startswith("notify_nova_on_port_") for _, name in conf.given)
    level = logging.WARNING if asked else logging.INFO
    LOG.log(level, "Nova is not notified of port changes: [nova] auth_type and credentials are not set")


def keystone_poster(conf: Configuration) -> Post:
    """A `post` that finds Nova in Keystone's catalog, with the `[nova]` credentials.

    keystoneauth is imported here, so that a server without Nova does not load it.
    """
    from keystoneauth1 import exceptions

    session = session_from_conf(conf, GROUP, "notify Nova of port changes")
    endpoint = {
        "service_type": "compute",
        "interface": conf.nova.endpoint_type,
        "region_name": conf.nova.region_name,
        "min_version": (2, 0),
        "max_version": (2, "latest"),
    }

    def post(events: list[dict[str, str]]) -> NovaAnswer:
        request_id = f"req-{uuid.uuid4()}"
        try:
            response = session.post(
                EVENTS_PATH,
                json={"events": events},
                endpoint_filter=endpoint,
                headers={"X-OpenStack-Request-ID": request_id, "Accept": "application/json"},
                user_agent="neutrino",
                raise_exc=False,
            )
        except exceptions.ClientException as why:
            forget_catalogue(session, why)
            missing = isinstance(why, exceptions.EndpointNotFound)
            reason = f"Nova has no {conf.nova.endpoint_type} endpoint: {why}" if missing else str(why)
            raise NovaUnavailable(reason) from why
        answer = NovaAnswer(response.status_code, request_id=request_id)
        with contextlib.suppress(msgspec.MsgspecError):  # an error page has no events
            answer.events = msgspec.json.decode(response.content, type=_Body).events
        return answer

    return post


class _Body(msgspec.Struct):
    events: list[Object]
