"""Placement, and other services with an API of JSON: what features share that report to them.

A feature asks for a `Call`, which sends one request and gives status and body; tests give one that needs no network.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from neutrino.configuration.options import Configuration
from neutrino.server.events.keystone import forget_catalogue, is_configured, session_from_conf

SECTION = "placement"
REPORTS = "placement"  # the service plugin by which hosts' resources are reported
TUNNEL_TRAIT = "CUSTOM_NETWORK_TUNNEL_PROVIDER"
ALLOCATION = "allocation"  # key of a binding profile: the resource providers of the groups of a port's request


class Unavailable(Exception):
    """Another attempt may succeed: no connection, no endpoint, a server error, or a conflict with another writer."""


class PlacementResponse(NamedTuple):
    status: int
    body: Any


Call = Callable[[str, str, object], PlacementResponse]  # method, path, body


def guarantees(conf: Configuration) -> bool:
    """Whether Placement gets what hosts guarantee, so that Nova can place instances by it."""
    return REPORTS in conf.service_plugins and is_configured(conf, SECTION)


def physical_network_trait(name: str) -> str:
    return trait(f"PHYSNET_{name}")


def vnic_type_trait(vnic_type: str) -> str:
    return trait(f"VNIC_TYPE_{vnic_type}")


def trait(name: str) -> str:
    """A custom trait: capital letters, digits and underscores."""
    return "CUSTOM_" + re.sub(r"[^0-9A-Z]+", "_", name.upper())


def networks(mappings: object) -> Iterator[tuple[str, str]]:
    """Physical networks with their devices, as agents report them: one each for Open vSwitch, several for SR-IOV."""
    for network, devices in mappings.items() if isinstance(mappings, Mapping) else ():
        for device in devices if isinstance(devices, list) else [devices]:
            if isinstance(network, str) and isinstance(device, str):
                yield network, device


def caller(
    conf: Configuration, group: str, service_type: str, version: str, purpose: str, timeout: float | None = None
) -> Call:
    """Requests to a service by the credentials of a section."""
    from keystoneauth1 import exceptions

    session = session_from_conf(conf, group, purpose)
    if timeout is not None:
        session.timeout = min(timeout, session.timeout)
    interface, region = conf[group].endpoint_type, conf[group].region_name
    endpoint = {"service_type": service_type, "interface": interface, "region_name": region}

    def call(method: str, path: str, body: object) -> PlacementResponse:
        try:
            answer = session.request(
                path,
                method,
                json=body,
                endpoint_filter=endpoint,
                microversion=version,
                headers={"Accept": "application/json"},
                user_agent="neutrino",
                raise_exc=False,
            )
        except exceptions.ClientException as why:
            forget_catalogue(session, why)
            raise Unavailable(f"{service_type}: {why}") from why
        try:
            return PlacementResponse(answer.status_code, answer.json() if answer.content else None)
        except ValueError:
            return PlacementResponse(answer.status_code, None)

    return call
