"""The drivers that the configuration names, loaded by entry point, and how the core calls them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oslo_config import cfg

from neutrino.server import errors
from neutrino.server.entry_points import load
from neutrino.server.ml2.driver_api import DriverContext, TypeDriver

LOG = logging.getLogger(__name__)


def type_drivers(conf: cfg.ConfigOpts) -> dict[str, TypeDriver]:
    names = list(dict.fromkeys([*conf.ml2.type_drivers]))
    drivers = {name: load("neutrino.ml2.type_drivers", name)(conf) for name in names}
    for name in conf.ml2.tenant_network_types:
        if name not in drivers:
            raise ValueError(f"[ml2] tenant_network_types: {name!r} is not among type_drivers")
    return drivers


def mechanism_drivers(conf: cfg.ConfigOpts) -> list[Any]:
    return [load("neutrino.ml2.mechanism_drivers", name)(conf) for name in conf.ml2.mechanism_drivers]


def extension_drivers(conf: cfg.ConfigOpts) -> list[Any]:
    return [load("neutrino.ml2.extension_drivers", name)(conf) for name in conf.ml2.extension_drivers]


class Mechanisms:
    """All mechanism drivers, in the order of the configuration."""

    def __init__(self, drivers: Sequence[Any]) -> None:
        self.drivers = list(drivers)

    def precommit(self, change: DriverContext, tx: Any) -> None:
        """In the transaction: the first driver that raises stops it."""
        for _, method in self._methods(change, "precommit"):
            method(replace(change, tx=tx))

    def has_postcommit(self, change: DriverContext) -> bool:
        return any(True for _ in self._methods(change, "postcommit"))

    def postcommit(self, change: DriverContext) -> None:
        """After the transaction: every driver is told, whatever the others say."""
        failed = []
        for driver, method in self._methods(change, "postcommit"):
            try:
                method(change)
            except Exception:
                LOG.exception("%s failed in driver %s", method.__name__, driver)
                failed.append(driver)
        if failed:
            name = f"{change.operation}_{change.kind}_postcommit"
            raise errors.MechanismDriverError(method=name, drivers=", ".join(failed))

    def _methods(self, change: DriverContext, phase: str) -> Iterable[tuple[str, Callable[[DriverContext], None]]]:
        name = f"{change.operation}_{change.kind}_{phase}"
        for driver in self.drivers:
            method = getattr(driver, name, None)
            if method is not None:
                yield getattr(driver, "name", type(driver).__name__), method


class Extensions:
    """All extension drivers, in the order of the configuration."""

    def __init__(self, drivers: Sequence[Any]) -> None:
        self._drivers = list(drivers)

    def process(
        self, operation: str, kind: str, values: Mapping[str, Any], result: dict[str, Any], **about: Any
    ) -> None:
        """Let each decide its attributes of `result`, from what the request gave and what it belongs to."""
        for driver in self._drivers:
            method = getattr(driver, f"process_{operation}_{kind}", None)
            if method is not None:
                method(values, result, **about)

    def store(self, operation: str, kind: str, tx: Any, result: Mapping[str, Any]) -> None:
        for driver in self._drivers:
            method = getattr(driver, f"store_{operation}_{kind}", None)
            if method is not None:
                method(tx, result)
