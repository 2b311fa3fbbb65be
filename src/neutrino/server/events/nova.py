"""External events to Nova: batched without an interval, retried without blocking anyone.

An event leaves as soon as the sender is free. While one request is on its way the next events gather, equal ones merge,
and the following request carries them all: under load there are few requests, and at rest there is no wait.

Nova's answer decides what follows. Connection errors and 5xx are tried again until the event is older than Nova would
wait for it; a server that Nova does not know (404, or 404 for one event of a 207) is gone, and its event with it.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oslo_config import cfg

from neutrino.server.events.nova_events import (
    NovaEvent,
    events_for_floating_ip,
    events_for_port,
    is_server_port,
    vif_plugged,
)
from neutrino.server.events.outbox import Outbox, OutboxCounts, backoff

__all__ = [
    "NovaAnswer",
    "NovaEvent",
    "NovaNotifier",
    "NovaSink",
    "NovaUnavailable",
    "NullNovaNotifier",
    "events_for_floating_ip",
    "events_for_port",
    "is_server_port",
    "keystone_poster",
    "nova_notifier_from_conf",
    "register_options",
    "vif_plugged",
]

LOG = logging.getLogger(__name__)

GROUP = "nova"
EVENTS_PATH = "/os-server-external-events"
WAITING_LIMIT = 10_000
BATCH = 100
FIRST_RETRY = 0.1
SLOWEST_RETRY = 10.0
RETRY_FOR = 300.0
"""Nova waits 300 s for a port by default; after that the event helps nobody, and Nova heals its cache by itself."""
REQUEST_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class NovaAnswer:
    """Nova's answer to one request: the status, and the events as it gives them back, each with a `code`."""

    status: int
    events: Sequence[Mapping[str, Any]] = ()
    request_id: str = ""


class NovaUnavailable(Exception):
    """There was no answer: no connection, no token, or no endpoint. Another attempt may succeed."""


Post = Callable[[list[dict[str, str]]], NovaAnswer]


class NovaSink(Protocol):
    """Takes events for Nova. It neither blocks nor raises."""

    def send(self, events: Iterable[NovaEvent]) -> None: ...

    def close(self, timeout: float = 5.0) -> None: ...


class NullNovaNotifier:
    """There is no Nova."""

    def send(self, events: Iterable[NovaEvent]) -> None:
        """Nobody waits for them."""

    def close(self, timeout: float = 5.0) -> None:
        """Nothing is open."""


class NovaNotifier:
    """Sends events to Nova in order, from one background thread of its own."""

    def __init__(
        self,
        post: Post,
        *,
        status_changes: bool = True,
        data_changes: bool = True,
        batch: int = BATCH,
        waiting_limit: int = WAITING_LIMIT,
        first_retry: float = FIRST_RETRY,
        slowest_retry: float = SLOWEST_RETRY,
        retry_for: float = RETRY_FOR,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._post = post
        self._status_changes = status_changes
        self._data_changes = data_changes
        self._first_retry = first_retry
        self._slowest_retry = slowest_retry
        self._retry_for = retry_for
        self._clock = clock
        self._outbox: Outbox[NovaEvent] = Outbox(
            "nova events", self._deliver, limit=waiting_limit, batch=batch, key=lambda event: event
        )

    @property
    def counts(self) -> OutboxCounts:
        return self._outbox.counts

    def send(self, events: Iterable[NovaEvent]) -> None:
        """Queue the events that the configuration asks for, and return."""
        for event in events:
            if self._status_changes if event.is_status_change else self._data_changes:
                self._outbox.put(event)

    def close(self, timeout: float = 5.0) -> None:
        """Send what can be sent within `timeout`, then stop."""
        self._outbox.close(timeout)

    def _deliver(self, batch: Sequence[NovaEvent]) -> int:
        body = [event.as_dict() for event in batch]
        give_up_at = self._clock() + self._retry_for
        for delay in backoff(self._first_retry, self._slowest_retry):
            try:
                answer = self._post(body)
                if not _is_passing(answer.status):
                    return _settle(batch, answer)
                why = f"HTTP {answer.status}"
            except NovaUnavailable as error:
                why = str(error)
            LOG.warning("Nova cannot take %d events now: %s", len(batch), why)
            if self._clock() + delay > give_up_at or not self._outbox.pause(delay):
                break
        LOG.error("Nova did not take %d events; they are given up", len(batch))
        return len(batch)


def _is_passing(status: int) -> bool:
    """Whether the status speaks of Nova's condition, and not of the events."""
    return status >= 500 or status == 429


def _settle(batch: Sequence[NovaEvent], answer: NovaAnswer) -> int:
    """Nova has spoken: log what it did not take, and count it."""
    if answer.status == 404:
        LOG.info("Nova knows none of the servers of %d events, which are dropped (%s)", len(batch), answer.request_id)
        return len(batch)
    if answer.status >= 300:
        LOG.error("Nova refused %d events with HTTP %d (%s)", len(batch), answer.status, answer.request_id)
        return len(batch)
    refused = [event for event in answer.events if event.get("code", 200) != 200]
    for event in refused:
        level = logging.INFO if event.get("code") == 404 else logging.WARNING
        LOG.log(
            level,
            "Nova dropped %s of port %s for server %s with code %s (%s)",
            event.get("name"),
            event.get("tag"),
            event.get("server_uuid"),
            event.get("code"),
            answer.request_id,
        )
    return len(refused)


def register_options(conf: cfg.ConfigOpts) -> None:
    """Whether Nova is told, and where it is. How to authenticate to it is registered by `keystone_poster`."""
    conf.register_opts(
        [
            cfg.BoolOpt(
                "notify_nova_on_port_status_changes",
                default=False,
                help="Tell Nova when a port's status changes. Nova needs it to start servers.",
            ),
            cfg.BoolOpt(
                "notify_nova_on_port_data_changes",
                default=False,
                help="Tell Nova when a port's addresses or floating IPs change, so that it renews its cache.",
            ),
        ]
    )
    conf.register_opts(
        [
            cfg.StrOpt("region_name", help="The region of Nova's endpoint."),
            cfg.StrOpt(
                "endpoint_type",
                default="public",
                choices=["public", "internal", "admin"],
                help="Which of Nova's endpoints in the catalogue to use.",
            ),
        ],
        group=GROUP,
    )


def nova_notifier_from_conf(conf: cfg.ConfigOpts) -> NovaSink:
    """The notifier that the configuration asks for. Options that cannot work are an error at start, not later."""
    status_changes = conf.notify_nova_on_port_status_changes
    data_changes = conf.notify_nova_on_port_data_changes
    if not status_changes and not data_changes:
        return NullNovaNotifier()
    return NovaNotifier(keystone_poster(conf), status_changes=status_changes, data_changes=data_changes)


def keystone_poster(conf: cfg.ConfigOpts) -> Post:
    """A `post` that finds Nova through Keystone, with the `[nova]` credentials.

    keystoneauth is imported here, so that a server without Nova does without it.
    """
    from keystoneauth1 import exceptions, loading

    loading.register_auth_conf_options(conf, GROUP)
    loading.register_session_conf_options(conf, GROUP)
    auth = loading.load_auth_from_conf_options(conf, GROUP)
    if auth is None:
        raise ValueError("[nova] auth_type is needed to tell Nova of port changes")
    session = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
    if session.timeout is None:
        session.timeout = REQUEST_TIMEOUT
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
        except exceptions.EndpointNotFound as why:
            session.invalidate()  # the token carries the catalogue: a new one may have Nova in it
            raise NovaUnavailable(f"Nova has no {conf.nova.endpoint_type} endpoint: {why}") from why
        except exceptions.ClientException as why:
            raise NovaUnavailable(str(why)) from why
        return NovaAnswer(response.status_code, _answered_events(response), request_id)

    return post


def _answered_events(response: Any) -> Sequence[Mapping[str, Any]]:
    try:
        body = response.json()
    except ValueError:
        return ()
    events = body.get("events") if isinstance(body, dict) else None
    return [event for event in events if isinstance(event, dict)] if isinstance(events, list) else ()
