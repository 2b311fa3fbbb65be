"""A small client of the Networking API, for the lab and `neutrino up`."""

import http.client
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlencode, urlsplit

from neutrino.lab.errors import LabError
from neutrino.lab.timing import scaled
from neutrino.model.objects import Object, Values

SECONDS = 90.0


class ApiError(LabError):
    """A response with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class ApiClient:
    """`api.create("network", name="blue")`; kinds are named in the singular."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    token: Callable[[], str] | None = field(default=None, kw_only=True)  # None: no authentication

    def create(self, kind: str, **values: object) -> Object:
        return cast(Object, self.request("POST", _path(kind), {kind: values})[kind])

    def update(self, kind: str, key: str, **values: object) -> Object:
        return cast(Object, self.request("PUT", f"{_path(kind)}/{key}", {kind: values})[kind])

    def show(self, kind: str, key: str) -> Object:
        return cast(Object, self.request("GET", f"{_path(kind)}/{key}")[kind])

    def delete(self, kind: str, key: str) -> None:
        self.request("DELETE", f"{_path(kind)}/{key}")

    def list(self, kind: str, **filters: str) -> list[Object]:
        query = f"?{urlencode(filters)}" if filters else ""
        return cast("list[Object]", self.request("GET", f"{_path(kind)}{query}")[_plural(kind)])

    def find(self, kind: str, name_or_id: str, **preferred: str) -> Object:
        """The object with this id, or the only one with this name; of several, the one with the preferred attributes."""
        shown = kind.replace("_", " ")
        found = self.list(kind, id=name_or_id) or self.list(kind, name=name_or_id)
        if len(found) > 1 and preferred:
            found = [one for one in found if preferred.items() <= one.items()] or found
        if not found:
            raise LabError(f"there is no {shown} {name_or_id}")
        if len(found) > 1:
            raise LabError(f"{len(found)} {_plural(shown)} are named {name_or_id}: use the id")
        return found[0]

    def request(self, method: str, path: str, body: Values | None = None) -> Object:
        token = {"X-Auth-Token": self.token()} if self.token is not None else {}
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=scaled(SECONDS))
        try:
            kind = {"Content-Type": "application/json"} if body is not None else {}
            headers = {**self.headers, **token, **kind}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise LabError(f"the API at {self.url} does not respond: {error}") from None
        finally:
            connection.close()
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            try:
                message = json.loads(content)["NeutronError"]["message"]
            except (ValueError, LookupError, TypeError):  # not from the API itself, such as a proxy's page
                message = f"the API answered {response.status}: {content.decode(errors='replace')[:200]}"
            raise ApiError(response.status, message)
        return cast(Object, json.loads(content) if content else {})

    def responds(self) -> bool:
        try:
            self.request("GET", "/")
        except LabError:
            return False
        return True


def _plural(kind: str) -> str:
    return f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"


def _path(kind: str) -> str:
    return f"/v2.0/{_plural(kind).replace('_', '-')}"
