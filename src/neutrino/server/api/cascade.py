"""Cascading deletes: what a request deletes besides the object that it names.

A collection with `delete_cascade` reports each of these objects as a `Removed`, first to `permit`, which refuses what the
caller could not delete by a request of its own, and in its result, from which the notifications are sent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from neutrino.model.objects import Object
from neutrino.server.api.definition import Resource

DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Removed:
    """An object that is deleted with another one, or that an action takes something from."""

    resource: Resource
    object: Object  # as it was, with the attributes of related objects that policy rules depend on
    action: str = DELETE  # or the name of an action, such as remove_router_interface
    answer: Any = None  # of the action


Permit = Callable[[Removed], None]  # raises PolicyNotAuthorized
