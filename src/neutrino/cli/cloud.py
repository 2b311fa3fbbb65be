"""The Networking API as commands use it: the endpoint and the credentials come from OS_* variables or a clouds.yaml.

The same variables and files as those of the `openstack` client, so that what works for one works for the other.
"""

import argparse
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.parser import Parser
from neutrino.model.objects import Object, Values

SECONDS = 30.0
PAGE = 1000  # objects in one response
DEFAULT_ENDPOINT = "http://127.0.0.1:9696"  # of `neutrino up` and of a server without authentication
_AUTH_PREFIX = "OS_"
_TLS = ("cacert", "cert", "key", "insecure")
_NOT_AUTH = {
    "cloud", "client_config_file", "region_name", "interface", "endpoint_type", *_TLS,
    "auth_type", "identity_api_version", "network_endpoint_override", "compute_api_version", "volume_api_version",
    "image_api_version", "placement_api_version",
}  # fmt: skip


class ApiError(CommandError):
    """A response with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Response(Object):
    """The body of a response; a missing key is an error in words, as other servers may answer at this address."""

    def __missing__(self, key: str) -> Any:
        raise CommandError(f"the response is not of the Networking API: it has no {key!r}")


def add_arguments(parser: Parser) -> None:
    parser.add_argument("--os-cloud", metavar="NAME", help="cloud of clouds.yaml (default: OS_CLOUD)")
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help="the API without authentication; of OS_* variables only OS_CACERT, OS_CERT, OS_KEY and OS_INSECURE are used",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


@dataclass(frozen=True)
class Cloud:
    """`cloud.list("ports", name="web")`; collections are named as in the path."""

    adapter: Any  # keystoneauth1's

    @property
    def url(self) -> str:
        """The endpoint; without one that was given, it is in Keystone's catalog."""
        return str(self.adapter.endpoint_override or self.adapter.get_endpoint() or "the API")

    def list(self, collection: str, **filters: object) -> Iterator[Object]:
        """All objects that match, page by page."""
        key, marker = collection.replace("-", "_"), ""
        while True:
            query = {**filters, "limit": PAGE, **({"marker": marker} if marker else {})}
            page = self.get(f"/v2.0/{collection}", **query)[key]
            yield from page
            if len(page) < PAGE or "id" not in page[-1]:
                return
            marker = page[-1]["id"]

    def get(self, path: str, **query: object) -> Object:
        return self.request("GET", path, params=query)

    def post(self, path: str, body: Values) -> Object:
        return self.request("POST", path, json=body)

    def request(self, method: str, path: str, **options: object) -> Object:
        from keystoneauth1 import exceptions

        try:
            response = self.adapter.request(path, method, raise_exc=False, timeout=SECONDS, **options)
        except exceptions.ClientException as error:
            raise CommandError(f"the API cannot be used: {error}") from None
        except Exception as error:  # of a plugin: keystoneauth1 raises a plain Exception for a missing password
            raise CommandError(f"the credentials cannot be used: {error}", INVALID) from None
        try:
            body = response.json() if response.content else {}
        except ValueError:
            body = None
        if response.status_code >= 400:
            found = body.get("NeutronError") or body.get("error") or body if isinstance(body, dict) else body
            message = found.get("message", found) if isinstance(found, dict) else found
            raise ApiError(response.status_code, f"{message or response.reason} (HTTP {response.status_code})")
        if not isinstance(body, dict):
            raise CommandError("the response is not of the Networking API: it is not a JSON object")
        return Response(body)


def connect(args: argparse.Namespace, url: str = "") -> Cloud:
    """By --endpoint, else by the cloud of --os-cloud or OS_CLOUD, else by OS_* variables, else by the default endpoint.

    `url`: the endpoint, instead of the one that these give.
    """
    from keystoneauth1 import adapter, loading, session

    logging.getLogger("keystoneauth").setLevel(logging.ERROR)  # what fails is in our own error
    settings = {**_settings(args), **({"network_endpoint_override": url} if url else {})}
    kind = settings.get("auth_type") or "password"
    auth = dict(settings.get("auth") or {})
    if kind in ("none", "noauth"):
        kind = "none"
        auth.setdefault("endpoint", settings.get("network_endpoint_override") or DEFAULT_ENDPOINT)
    try:
        loader: Any = loading.get_plugin_loader(kind)
        known = {option.dest for option in loader.get_options()}
        plugin = loader.load_from_options(**{name: value for name, value in auth.items() if name in known})
    except Exception as error:  # of any of the plugins: a missing option, an unknown plugin
        raise CommandError(f"the credentials are incomplete: {error}", INVALID) from None
    verify = settings.get("cacert") or (not _is_true(settings.get("insecure")) and settings.get("verify", True))
    return Cloud(
        adapter.Adapter(
            session.Session(auth=plugin, verify=verify, cert=_client_certificate(settings)),
            service_type="network",
            interface=settings.get("interface") or settings.get("endpoint_type") or "public",
            region_name=settings.get("region_name"),
            endpoint_override=_root(settings.get("network_endpoint_override")),
            user_agent="neutrino",
        )
    )


def _client_certificate(settings: Values) -> tuple[str, str] | str | None:
    """A certificate with its key, or a file that has both."""
    cert, key = settings.get("cert"), settings.get("key")
    return (cert, key) if cert and key else cert


def _root(url: str | None) -> str | None:
    """An endpoint without the version, as paths here have it."""
    return url.rstrip("/").removesuffix("/v2.0") if url else None


def _is_true(value: object) -> bool:
    return str(value).lower() in ("1", "true", "yes")


def _settings(args: argparse.Namespace) -> Values:
    given = {
        key[len(_AUTH_PREFIX) :].lower(): value for key, value in os.environ.items() if key.startswith(_AUTH_PREFIX)
    }
    if args.endpoint:
        # The API may have a certificate of a private CA, or require one of the client, also without Keystone.
        tls = {name: value for name, value in given.items() if name in _TLS}
        return {"auth_type": "none", "network_endpoint_override": args.endpoint, **tls}
    name = args.os_cloud or os.environ.get("OS_CLOUD")
    if name:
        return _of_file(name)
    if "auth_url" in given or "auth_type" in given:
        auth = {key: value for key, value in given.items() if key not in _NOT_AUTH}
        return {**{key: value for key, value in given.items() if key in _NOT_AUTH}, "auth": auth}
    return {"auth_type": "none"}


def _of_file(name: str) -> Values:
    import yaml  # type: ignore[import-untyped]

    given = os.environ.get("OS_CLIENT_CONFIG_FILE")
    paths = [Path(given)] if given else []
    paths += [
        Path("clouds.yaml"),
        Path("~/.config/openstack/clouds.yaml").expanduser(),
        Path("/etc/openstack/clouds.yaml"),
    ]
    for path in paths:
        try:
            found = yaml.safe_load(path.read_text())
        except FileNotFoundError:
            continue
        except (OSError, yaml.YAMLError) as error:
            raise CommandError(f"{path} cannot be read: {error}", INVALID) from None
        clouds = found.get("clouds") if isinstance(found, dict) else None
        if isinstance(clouds, dict) and isinstance(clouds.get(name), dict):
            settings: Object = clouds[name]
            return settings
    raise CommandError(f"there is no cloud {name} in {', '.join(map(str, paths))}", INVALID)
