"""Cleanup: a run has its own project, and all objects of that project are deleted."""

from __future__ import annotations

from typing import Any

from qa.bench.client import LoadError
from qa.bench.workbench import Bench, progress


def run(bench: Bench, routing: bool) -> None:
    """Delete in the order of dependencies. Objects that cannot be deleted are returned, not raised."""
    steps = [_floatingips, _routers] if routing else []
    for step in [*steps, _ports, _networks, _groups]:
        try:
            step(bench)
        except LoadError as error:
            progress(f"clean-up: {error}")


def _owned(bench: Bench, collection: str) -> list[dict[str, Any]]:
    return bench.client.get(f"/{collection}?project_id={bench.project}").items()


def _ids(items: list[dict[str, Any]]) -> list[str]:
    return [str(item["id"]) for item in items]


def _floatingips(bench: Bench) -> None:
    bench.delete_all("floatingips", _ids(_owned(bench, "floatingips")))


def _routers(bench: Bench) -> None:
    routers = _ids(_owned(bench, "routers"))
    for router in routers:
        bench.client.put(f"/routers/{router}", {"router": {"external_gateway_info": None}})
        for port in bench.client.get(f"/ports?device_id={router}").items():
            bench.client.put(f"/routers/{router}/remove_router_interface", {"port_id": port["id"]})
    bench.delete_all("routers", routers)


def _ports(bench: Bench) -> None:
    ports = [port for port in _owned(bench, "ports") if not str(port["device_owner"]).startswith("network:")]
    progress(f"deleting {len(ports)} ports")
    measured = bench.delete_all("ports", _ids(ports))
    if measured is not None:
        bench.record("delete_port_together", measured)


def _networks(bench: Bench) -> None:
    bench.delete_all("networks", _ids(_owned(bench, "networks")))


def _groups(bench: Bench) -> None:
    bench.delete_all("security-groups", _ids(_owned(bench, "security-groups")))
