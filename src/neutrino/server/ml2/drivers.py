"""Loading of drivers by entry point, and the calls of all drivers of a kind."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oslo_config import cfg

from neutrino.server import errors
from neutrino.server.db.transaction import Transaction
from neutrino.server.entry_points import load
from neutrino.server.ml2.driver_api import DriverContext, TypeDriver
from neutrino.server.ml2.extension_attributes import ExtensionAttributes

LOG = logging.getLogger(__name__)
Object = dict[str, Any]
_EVENTS = (
    *(f"{operation}_{kind}" for kind in ("network", "subnet", "port") for operation in ("create", "update", "delete")),
    *(f"{operation}_port_binding" for operation in ("create", "update", "activate", "delete")),
)


def type_drivers(conf: cfg.ConfigOpts) -> dict[str, TypeDriver]:
    drivers = {name: load("neutrino.ml2.type_drivers", name)(conf) for name in dict.fromkeys(conf.ml2.type_drivers)}
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
        # By method name, found once: every write asks whether some driver wants to be notified.
        self._methods = {
            f"{event}_{phase}": [
                (getattr(driver, "name", type(driver).__name__), getattr(driver, f"{event}_{phase}"))
                for driver in drivers
                if hasattr(driver, f"{event}_{phase}")
            ]
            for event in _EVENTS
            for phase in ("precommit", "postcommit")
        }

    def notifies(self, operation: str, kind: str) -> bool:
        event = f"{operation}_{kind}"
        return bool(self._methods[f"{event}_precommit"] or self._methods[f"{event}_postcommit"])

    def has_postcommit(self, context: DriverContext) -> bool:
        return bool(self._methods[f"{context.operation}_{context.kind}_postcommit"])

    def precommit(self, context: DriverContext, tx: Transaction) -> None:
        """In the transaction: the first driver that raises stops it."""
        for _, method in self._methods[f"{context.operation}_{context.kind}_precommit"]:
            method(replace(context, tx=tx))

    def postcommit(self, context: DriverContext) -> None:
        """After the transaction: every driver is called, also after another one has failed."""
        name = f"{context.operation}_{context.kind}_postcommit"
        failed = []
        for driver, method in self._methods[name]:  # equipment of the other drivers must not miss a committed change
            try:
                method(context)
            except Exception:
                LOG.exception("mechanism driver %s failed in %s of %s", driver, name, context.current.get("id"))
                failed.append(driver)
        if failed:
            raise errors.MechanismDriverError(method=name, drivers=", ".join(failed))


class Extensions:
    """All extension drivers, in the order of the configuration."""

    def __init__(self, drivers: Sequence[Any]) -> None:
        self._drivers = list(drivers)
        self.attributes = ExtensionAttributes(drivers)

    def process(self, operation: str, kind: str, values: Mapping[str, Any], current: Object, **about: Any) -> Object:
        """The object with the attribute values that the drivers decide, each seeing those of the drivers before it."""
        if operation == "create":
            current = {**self.attributes.defaults(kind), **current}
        for method in self._methods(f"process_{operation}_{kind}"):
            current = {**current, **method(values, current, **about)}
        return current

    def store(
        self, kind: str, tx: Transaction, current: Mapping[str, Any], before: Mapping[str, Any] | None = None
    ) -> None:
        """Write what the drivers keep of an object, in its transaction; `before`: its state before an update."""
        operation = "create" if before is None else "update"
        self.attributes.store(tx, kind, current, before)
        for method in self._methods(f"store_{operation}_{kind}"):
            method(tx, current)

    def _methods(self, name: str) -> list[Callable[..., Any]]:
        return [getattr(driver, name) for driver in self._drivers if hasattr(driver, name)]
