"""Reads the ports of Ironic: the node of each, and its physical network."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from neutrino.configuration.options import Configuration
from neutrino.server.events.keystone import forget_catalogue, session_from_conf

GROUP = "ironic"
VERSION = "1.34"  # the first in which ports have a physical network
MOST_PAGES = 10_000


class Unavailable(Exception):
    """Ironic cannot be asked, or has not answered as it should."""


@dataclass(frozen=True)
class NodePort:
    node: str
    physical_network: str | None


Get = Callable[[str], Any]  # the JSON of a path of Ironic's API
ReadPorts = Callable[[], list[NodePort]]


def read_ports(get: Get) -> Iterator[NodePort]:
    """All ports, page by page; Unavailable if an answer is not one of Ironic's."""
    path: str | None = "/v1/ports?fields=uuid,node_uuid,physical_network"
    for _ in range(MOST_PAGES):
        if path is None:
            return
        page = get(path)
        if not isinstance(page, Mapping) or not isinstance(page.get("ports"), list):
            raise Unavailable(f"the answer to {path} has no ports")
        for port in page["ports"]:
            yield _port(port)
        path = _next(page.get("next"))
    raise Unavailable(f"more than {MOST_PAGES} pages of ports")


def _port(port: Any) -> NodePort:
    node = port.get("node_uuid") if isinstance(port, Mapping) else None
    network = port.get("physical_network") if isinstance(port, Mapping) else None
    if not isinstance(node, str) or not node or not (network is None or isinstance(network, str)):
        raise Unavailable(f"not a port: {str(port)[:200]}")
    return NodePort(node, network)


def _next(link: Any) -> str | None:
    """The path of the next page. Its link names a host as Ironic sees itself, which need not be the endpoint."""
    if not isinstance(link, str):
        return None
    parts = urlsplit(link)
    return f"/v1/ports?{parts.query}"


def ports_from_conf(conf: Configuration) -> ReadPorts:
    from keystoneauth1 import exceptions

    session = session_from_conf(conf, GROUP, "report Ironic's nodes")
    interface, region = conf[GROUP].endpoint_type, conf[GROUP].region_name
    endpoint = {"service_type": "baremetal", "interface": interface, "region_name": region}

    def get(path: str) -> Any:
        try:
            answer = session.get(
                path,
                endpoint_filter=endpoint,
                headers={"Accept": "application/json", "X-OpenStack-Ironic-API-Version": VERSION},
                user_agent="neutrino",
                raise_exc=False,
            )
        except exceptions.ClientException as why:
            forget_catalogue(session, why)
            raise Unavailable(str(why)) from why
        if answer.status_code != 200:
            raise Unavailable(f"{path}: HTTP {answer.status_code}")
        try:
            return answer.json()
        except ValueError:
            raise Unavailable(f"{path}: the answer is not JSON") from None

    return lambda: list(read_ports(get))
