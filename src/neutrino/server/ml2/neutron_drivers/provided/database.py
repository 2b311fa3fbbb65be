"""neutron_lib.db.api: there are no ORM sessions. A reader transaction is none, any other use is refused by name.

Without this, the first use would open whatever database oslo.db finds configured, outside of our transactions.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from neutron_lib.db import api

from neutrino.server.ml2.neutron_drivers.runtime import NotProvided


class _Reader:
    """`with CONTEXT_READER.using(context)`, or as a decorator: what is read inside has connections of its own."""

    @contextmanager
    def using(self, context: Any) -> Iterator[None]:
        yield

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


class _Writer:
    def using(self, context: Any) -> Any:
        raise NotProvided("a transaction of neutron_lib.db.api")

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def refused(*args: Any, **values: Any) -> Any:
            self.using(None)

        return refused


def _no_session() -> Any:
    raise NotProvided("a session of neutron_lib.db.api")


def replace_sessions() -> None:
    """Replace what drivers look up by name."""
    api.CONTEXT_READER, api.CONTEXT_WRITER = _Reader(), _Writer()
    api.get_reader_session = api.get_writer_session = _no_session
