"""`GET /v2.0/status`: the state of servers, database, feed, hosts and objects in one document, for administrators.

    ?limit=N     hosts in the document, at most 1000 (the default)      ?marker=HOST   hosts after this one
    ?host=NAME   this host only                                         ?problems=true hosts with a problem only

Verdict, problems and counts are always of everything.
"""

from dataclasses import dataclass
from typing import Final

from neutrino.diagnosis.findings import find
from neutrino.diagnosis.status import Page, document
from neutrino.server import errors
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.status import reader

MAX_HOSTS: Final = 1000
RULE: Final = "get_status"


@dataclass(frozen=True)
class Status:
    db: Database
    registry: Registry

    def routes(self, authorizer: Authorizer) -> list[Route]:
        def show(request: Request) -> Reply:
            authorizer.require(request.context, RULE, {})
            page = _page(request.pairs)
            facts = reader.read(self.db, self.registry.clock(), self.registry.down_time)
            return Reply(200, {"status": document(facts, find(facts), page)}, compressible=True)

        return [Route("GET", f"{PREFIX}/status", show)]


def _page(pairs: list[tuple[str, str]]) -> Page:
    values = dict(pairs)
    if unknown := sorted(values.keys() - {"limit", "marker", "host", "problems"}):
        raise errors.HTTPBadRequest(
            f"There is no parameter {unknown[0]!r}: limit, marker, host and problems are known."
        )
    limit, text = values.get("limit", ""), values.get("problems", "false").lower()
    if limit and not (limit.isascii() and limit.isdigit() and int(limit[:9]) > 0):
        raise errors.HTTPBadRequest(f"limit: {limit!r} is not a number from 1 up.")
    if text not in ("true", "false"):
        raise errors.HTTPBadRequest(f"problems: {text!r} is neither true nor false.")
    number = min(int(limit[:9]), MAX_HOSTS) if limit else MAX_HOSTS
    return Page(number, values.get("marker", ""), values.get("host", ""), text == "true")
