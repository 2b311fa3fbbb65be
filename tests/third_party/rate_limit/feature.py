"""The server's half of rate limits."""

from collections.abc import Iterator

from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api import types
from neutrino.server.api.definition import REQUIRED, Attribute, Extension, Resource, creatable
from neutrino.server.api.resources.common import IDENTITY, standard
from neutrino.server.collection import Collection
from neutrino.server.db.columns import History, integers, object_table, reference
from neutrino.server.db.view import View
from neutrino.server.features import Feature
from neutrino.server.feed.declarations import Feed, Reference
from neutrino.server.feed.fanout import ServedKind, SharedObjects
from neutrino.server.feed.readers.rows import Ids, build, read_rows, select
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.policy.rules import ADMIN, ADMIN_OR_READER, crud
from neutrino.server.services import ResourcePlugin, Services
from tests.third_party.rate_limit.model import KIND, RateLimit

rate_limits = object_table(
    "example_rate_limits",
    reference("port_id", "ports"),
    integers("packets_per_second"),
    history=History("rate_limit", feed=True),
    quota="rate_limit",
)


class RateLimitNotFound(errors.NotFound):
    template = "There is no rate limit {id}."


RATE_LIMIT = Resource(
    name="rate_limit",
    not_found=RateLimitNotFound,
    attributes=(
        *IDENTITY,
        creatable("port_id", types.Uuid(), default=REQUIRED, searchable=True),
        Attribute("packets_per_second", types.Integer(min=1, max=10**6), post=True, put=True, default=REQUIRED),
        *standard(tags=None),
    ),
)
VIEW = View(rate_limits, hidden=("tags",), not_found=RateLimitNotFound)


def build_plugin(services: Services) -> ResourcePlugin:
    return ResourcePlugin(collections=((RATE_LIMIT, Collection(services.db, VIEW, services.quotas)),))


def read_limits(connection: Connection, ids: Ids) -> Iterator[tuple[str, RateLimit]]:
    for row in read_rows(connection, select(RateLimit, rate_limits), rate_limits.c.id, ids):
        yield row.id, build(RateLimit, row)


def refuse_delete(connection: Connection, port: Object) -> None:
    raise errors.ServicePortInUse(port_id=port["id"], reason="it has a rate limit")


FEATURE = Feature(
    name="rate_limit",
    extensions=(Extension("rate-limit", "Rate limits", "Limits of the packets that a port sends."),),
    build=build_plugin,
    tables=(rate_limits,),
    policy=crud("rate_limit", ADMIN, ADMIN_OR_READER),
    quotas={"rate_limit": 2},
    ports=(PortUse((rate_limits.c.port_id,), check_delete=refuse_delete),),
    feed=Feed(
        kinds=(
            ServedKind(
                KIND, SharedObjects, source="rate_limit", read=read_limits, key=lambda limit: str(limit.port_id)
            ),
        ),
        references=(Reference("rate_limit", "port", lambda port: (port.id,)),),
    ),
)
