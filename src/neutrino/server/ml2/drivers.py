"""Loading of drivers by entry point, and the calls of all mechanism drivers."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oslo_config import cfg

from neutrino.server import errors
from neutrino.server.db.transaction import Transaction
from neutrino.server.entry_points import load
from neutrino.server.ml2.driver_api import DriverContext

LOG = logging.getLogger(__name__)
_EVENTS = (
    *(f"{operation}_{kind}" for kind in ("network", "subnet", "port") for operation in ("create", "update", "delete")),
    *(f"{operation}_port_binding" for operation in ("create", "update", "activate", "delete")),
)


def load_drivers(conf: cfg.ConfigOpts, kind: str) -> dict[str, Any]:
    """The drivers that the option `[ml2] <kind>` names, in its order."""
    return {name: load(f"neutrino.ml2.{kind}", name)(conf) for name in conf.ml2[kind]}


class Mechanisms:
    """All mechanism drivers, in the order of the configuration."""

    def __init__(self, drivers: Mapping[str, Any]) -> None:
        self.drivers = list(drivers.values())
        # By method name, found once: every write asks whether some driver wants to be notified.
        self._methods = {
            f"{event}_{phase}": [
                (name, getattr(driver, f"{event}_{phase}"))
                for name, driver in drivers.items()
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
