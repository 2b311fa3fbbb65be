"""Events to Ironic about bare-metal ports: which ones a change causes (pure), and their delivery.

Ironic waits for none of them, but a deployment that has them set in Neutron sees by them when the network of a node is
attached. As in Neutron: a port with `binding:vnic_type` `baremetal` that becomes ACTIVE or ERROR from DOWN (bind_port),
DOWN or ERROR from ACTIVE (unbind_port), or is deleted.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from neutrino.configuration.options import Configuration
from neutrino.features.baremetal.ironic import GROUP, Unavailable
from neutrino.model.objects import Values
from neutrino.server.events.delivery import DeliveryOptions, DeliveryQueue, Undelivered
from neutrino.server.events.keystone import forget_catalogue, session_from_conf

LOG = logging.getLogger(__name__)
VERSION = "1.54"  # the first with /v1/events
PATH = "/v1/events"
BAREMETAL = "baremetal"
BIND, UNBIND, DELETE = "network.bind_port", "network.unbind_port", "network.delete_port"
_CHANGES = {
    ("DOWN", "ACTIVE"): BIND,
    ("DOWN", "ERROR"): BIND,
    ("ACTIVE", "DOWN"): UNBIND,
    ("ACTIVE", "ERROR"): UNBIND,
}
DELIVERY = DeliveryOptions(retry_for=300.0)


class IronicEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event, encoded as Ironic's API has it, which refuses empty values."""

    event: str
    port_id: str
    mac_address: str
    status: str
    device_id: str = ""
    host: str = msgspec.field(default="", name="binding:host_id")
    vnic_type: str = msgspec.field(default="", name="binding:vnic_type")


def event_of(before: Values | None, after: Values | None) -> IronicEvent | None:
    """The event of a port that was created (no `before`), changed, or deleted (no `after`)."""
    port = after if after is not None else before
    if port is None or before is None or port.get("binding:vnic_type") != BAREMETAL:
        return None
    name = _CHANGES.get((before["status"], port["status"])) if after is not None else DELETE
    if name is None:
        return None
    status = port["status"] if after is not None else "DELETED"
    described = (port.get(key) or "" for key in ("device_id", "binding:host_id", "binding:vnic_type"))
    return IronicEvent(name, port["id"], port["mac_address"], status, *described)


Post = Callable[[bytes], int]  # the status of the answer; Unavailable if there is none


@dataclass(eq=False)
class IronicNotifier:
    """Sends events in order, from a background thread; neither blocks nor raises. A batch that Ironic refuses is logged."""

    post: Post
    delivery: DeliveryOptions = DELIVERY

    def __post_init__(self) -> None:
        self.queue = DeliveryQueue("events for Ironic", self._deliver, self.delivery)

    def port_changed(self, before: Values | None, after: Values | None) -> None:
        event = event_of(before, after)
        if event is not None:
            self.queue.put(event)

    def _deliver(self, batch: Sequence[IronicEvent]) -> Undelivered[IronicEvent] | None:
        try:
            status = self.post(msgspec.json.encode({"events": batch}))
        except Unavailable as why:
            return Undelivered(batch, str(why))
        if status >= 500 or status in (409, 429):
            return Undelivered(batch, f"HTTP {status}")
        if status >= 300:
            ports = ", ".join(sorted({event.port_id for event in batch}))
            LOG.error("Ironic refused %d events with HTTP %d, of the ports %s", len(batch), status, ports)
        return None

    def close(self) -> None:
        self.queue.close()


def notifier_from_conf(conf: Configuration) -> IronicNotifier:
    from keystoneauth1 import exceptions

    session = session_from_conf(conf, GROUP, "notify Ironic of port changes")
    interface, region = conf[GROUP].endpoint_type, conf[GROUP].region_name
    endpoint = {"service_type": "baremetal", "interface": interface, "region_name": region}

    def post(body: bytes) -> int:
        try:
            answer = session.post(
                PATH,
                data=body,
                endpoint_filter=endpoint,
                headers={"Content-Type": "application/json", "X-OpenStack-Ironic-API-Version": VERSION},
                user_agent="neutrino",
                raise_exc=False,
            )
        except exceptions.ClientException as why:
            forget_catalogue(session, why)
            missing = isinstance(why, exceptions.EndpointNotFound)
            raise Unavailable(f"Ironic has no {interface} endpoint: {why}" if missing else str(why)) from why
        return int(answer.status_code)

    return IronicNotifier(post)
