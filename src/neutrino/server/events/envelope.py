"""The format of notifications: oslo.messaging's, with the envelope 2.0 or without one (1.0).

Consumers (Ceilometer, Designate, billing) read these messages with oslo.messaging, so every name here is theirs. The outer
body has the version and the message as a JSON string. The inner message is flat: the caller's context is spread over it
under `_context_` keys, and `_unique_id` lets a consumer skip a message that was delivered twice after a lost connection.
The caller's token is never part of it.
"""

import json
from collections.abc import Mapping
from datetime import datetime

import msgspec

from neutrino.server.context import Context

ENVELOPE_VERSION = "2.0"
PRIORITY = "INFO"


def render_context(context: Context, now: datetime) -> dict[str, object]:
    """The caller under the names that consumers look for, including the deprecated `tenant` names."""

    def known(name: str) -> str | None:
        value = context.credentials.get(name)
        return value if isinstance(value, str) and value else None

    user, project, project_name = context.user_id or None, context.project_id, known("project_name")
    identity = (user, project, known("domain_id"), known("user_domain_id"), known("project_domain_id"))
    return {
        "request_id": context.request_id,
        "global_request_id": known("global_request_id"),
        "user": user,
        "user_id": user,
        "user_name": known("user_name"),
        "user_domain": known("user_domain_id"),
        "project": project,
        "project_id": project,
        "project_name": project_name,
        "project_domain": known("project_domain_id"),
        "tenant": project,
        "tenant_id": project,
        "tenant_name": project_name,
        "domain": known("domain_id"),
        "system_scope": known("system_scope"),
        "roles": sorted(context.roles),
        "is_admin": context.is_admin,
        # oslo.context has these in every message; without a meaning here, they have their defaults.
        "is_admin_project": True,
        "read_only": False,
        "show_deleted": False,
        "auth_token": None,
        "resource_uuid": None,
        "user_identity": " ".join(part or "-" for part in identity),
        "timestamp": _timestamp(now),
    }


def render_message(
    event_type: str,
    payload: Mapping[str, object],
    context: Context,
    *,
    publisher_id: str,
    message_id: str,
    now: datetime,
) -> dict[str, object]:
    """The inner message, equal on every topic; `now` is in UTC."""
    return {
        **render_event(event_type, payload, publisher_id=publisher_id, message_id=message_id, now=now),
        **{f"_context_{name}": value for name, value in render_context(context, now).items()},
    }


def render_event(
    event_type: str, payload: Mapping[str, object], *, publisher_id: str, message_id: str, now: datetime
) -> dict[str, object]:
    """The part of a message that is not the caller's context."""
    return {
        "message_id": message_id,
        "publisher_id": publisher_id,
        "event_type": event_type,
        "priority": PRIORITY,
        "payload": payload,
        "timestamp": _timestamp(now),
    }


def seal(message: Mapping[str, object], unique_id: str, *, has_envelope: bool = True) -> str:
    """The body of one AMQP message. Each copy of a message (one per topic and format) has its own `unique_id`."""
    inner = json.dumps({**message, "_unique_id": unique_id}, default=plain)
    if not has_envelope:
        return inner
    return json.dumps({"oslo.version": ENVELOPE_VERSION, "oslo.message": inner})


def _timestamp(now: datetime) -> str:
    """UTC with six digits after the second: the only format that consumers parse."""
    return now.strftime("%Y-%m-%d %H:%M:%S.%f")


def plain(value: object) -> object:
    """A value that JSON does not know must not fail the request."""
    if isinstance(value, msgspec.Raw):  # a JSON column that was read from the database unparsed
        return msgspec.json.decode(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)
