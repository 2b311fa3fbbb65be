"""The notification envelope of the ecosystem, oslo.messaging's format 2.0, as pure functions.

Consumers (Ceilometer, Designate, Searchlight, billing) read these messages with oslo.messaging, so every name here is
theirs. The outer body has two keys, the version and the message as a JSON string. The inner message is flat: the
caller's context is spread over it under `_context_` keys, and `_unique_id` lets a consumer skip a message that was
delivered twice after a lost connection. The caller's token is never part of it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from neutrino.server.context import Context

ENVELOPE_VERSION = "2.0"
PRIORITY = "INFO"


@dataclass(frozen=True, slots=True)
class NotificationContext:
    """Who caused the notification, as far as consumers may know."""

    request_id: str = ""
    global_request_id: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    user_domain_id: str | None = None
    project_id: str | None = None
    project_name: str | None = None
    project_domain_id: str | None = None
    domain_id: str | None = None
    system_scope: str | None = None
    roles: tuple[str, ...] = ()
    is_admin: bool = False


def notification_context(context: Context) -> NotificationContext:
    """The caller of a request, as the notifications about it show them."""

    def known(name: str) -> str | None:
        value = context.credentials.get(name)
        return value if isinstance(value, str) and value else None

    return NotificationContext(
        request_id=context.request_id,
        global_request_id=known("global_request_id"),
        user_id=context.user_id or None,
        user_name=known("user_name"),
        user_domain_id=known("user_domain_id"),
        project_id=context.project_id,
        project_name=known("project_name"),
        project_domain_id=known("project_domain_id"),
        domain_id=known("domain_id"),
        system_scope=known("system_scope"),
        roles=tuple(sorted(context.roles)),
        is_admin=context.is_admin,
    )


def render_context(context: NotificationContext, now: datetime) -> dict[str, object]:
    """The context under the names that consumers look for, the old `tenant` names beside `project`."""
    identity = (
        context.user_id,
        context.project_id,
        context.domain_id,
        context.user_domain_id,
        context.project_domain_id,
    )
    return {
        "request_id": context.request_id,
        "global_request_id": context.global_request_id,
        "user": context.user_id,
        "user_id": context.user_id,
        "user_name": context.user_name,
        "user_domain": context.user_domain_id,
        "project": context.project_id,
        "project_id": context.project_id,
        "project_name": context.project_name,
        "project_domain": context.project_domain_id,
        "tenant": context.project_id,
        "tenant_id": context.project_id,
        "tenant_name": context.project_name,
        "domain": context.domain_id,
        "system_scope": context.system_scope,
        "roles": list(context.roles),
        "is_admin": context.is_admin,
        "is_admin_project": True,
        "read_only": False,
        "show_deleted": False,
        "auth_token": None,
        "resource_uuid": None,
        "user_identity": " ".join(part or "-" for part in identity),
        "timestamp": render_timestamp(now),
    }


def render_timestamp(now: datetime) -> str:
    """UTC with six digits after the second, always: consumers parse this one format."""
    return now.strftime("%Y-%m-%d %H:%M:%S.%f")


def render_message(
    event_type: str,
    payload: Mapping[str, object],
    context: NotificationContext,
    *,
    publisher_id: str,
    message_id: str,
    now: datetime,
) -> dict[str, object]:
    """The inner message, alike on every topic; `now` is in UTC."""
    message: dict[str, object] = {
        "message_id": message_id,
        "publisher_id": publisher_id,
        "event_type": event_type,
        "priority": PRIORITY,
        "payload": payload,
        "timestamp": render_timestamp(now),
    }
    message.update((f"_context_{name}", value) for name, value in render_context(context, now).items())
    return message


def seal(message: Mapping[str, object], unique_id: str) -> str:
    """The body of one AMQP message. Each copy of a message (one a topic) has its own `unique_id`."""
    inner = json.dumps({**message, "_unique_id": unique_id}, default=_plain)
    return json.dumps({"oslo.version": ENVELOPE_VERSION, "oslo.message": inner})


def new_message_id() -> str:
    return str(uuid.uuid4())


def new_unique_id() -> str:
    return uuid.uuid4().hex


def _plain(value: object) -> object:
    """A notification must not fail a request over a value JSON does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)
