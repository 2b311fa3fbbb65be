"""An extension driver written for Neutron as one of ours (`driver_api`), without tables of its own.

The attributes that its API extension defines are stored and read by the server, as those of our own drivers. The driver
checks and decides their values when an object is created or updated, and computes those of `extend_*_dict` then.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET
from neutron_lib import constants, exceptions
from neutron_lib import context as neutron_context
from neutron_lib.api import attributes
from neutron_lib.plugins.ml2 import api
from oslo_config import cfg

from neutrino.errors import RefusedToStart
from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.api import types
from neutrino.server.api.definition import REQUIRED, Attribute, Extension
from neutrino.server.ml2.neutron_drivers import runtime
from neutrino.server.ml2.neutron_drivers.calls import Hanging, run_bounded
from neutrino.server.ml2.neutron_drivers.contexts import as_neutron
from neutrino.server.ml2.neutron_drivers.provided import api_extensions
from neutrino.server.ml2.neutron_drivers.runtime import NotProvided

LOG = logging.getLogger(__name__)
KINDS = {"networks": "network", "subnets": "subnet", "ports": "port"}  # by collection
EVERYONE = "rule:regular_user"  # the default of an attribute with `enforce_policy`, which an operator may override
MAX_SECONDS = 30.0  # of a call: a request waits for it
_STATUSES = (
    (exceptions.NotFound, 404),
    (exceptions.NotAuthorized, 403),
    (exceptions.Conflict, 409),
    (exceptions.InUse, 409),
    (exceptions.BadRequest, 400),
)


@dataclass(frozen=True)
class Converted(types.Type[object]):
    """The type of an attribute by its definition in neutron-lib's form: converters and validators by name."""

    name: str
    definition: Mapping[str, Any]

    def parse(self, value: object) -> object:
        given = {self.name: value}
        try:
            attributes.AttributeInfo({self.name: self.definition}).convert_values(given, types.Invalid)
        except exceptions.NeutronException as error:  # of a converter
            raise types.Invalid(str(error)) from None
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ):  # of one that expects better input
            raise types.Invalid(f"'{value}' is not valid") from None
        return given[self.name]


class Session:
    """In place of a database session: there is none."""

    def __getattr__(self, name: str) -> Any:
        raise NotProvided(f"session.{name}")


class Model(dict[str, Any]):
    """In place of a row: the attributes of the object, also by dots."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise NotProvided(f"base_model.{name}") from None


class AdaptedExtension:
    """Has the `process_…` methods of `driver_api` for the kinds of objects that the driver extends."""

    is_of_neutron = True

    def __init__(self, conf: cfg.ConfigOpts, name: str, driver_class: type[Any]) -> None:
        self.name = name
        self._seconds = min(float(conf.ml2.driver_timeout), MAX_SECONDS)
        self._server: runtime.Runtime | None = None
        try:  # as in Neutron, before processes are forked
            self._driver = driver_class()
            self._driver.initialize()
            aliases = [alias for alias in self._driver.extension_aliases if alias]
            self.extensions, defined = _extensions(aliases)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise RefusedToStart(f"[ml2] extension_drivers: {name!r} cannot be initialised: {reason}") from error
        self._definitions = defined
        self.policy_rules = {
            f"{action}_{kind}:{name}": EVERYONE
            for kind, attributes_of_kind in defined.items()
            for name, definition in attributes_of_kind.items()
            if definition.get("enforce_policy")
            for action in ("create", "update", "get")
        }
        for kind in KINDS.values():
            if self._overrides(f"extend_{kind}_dict"):
                self._listen("create", kind)
                self._listen("update", kind)
            for operation in ("create", "update"):
                if self._overrides(f"process_{operation}_{kind}"):
                    self._listen(operation, kind)

    def _overrides(self, method: str) -> bool:
        own = getattr(type(self._driver), method, None)
        return own is not None and own is not getattr(api.ExtensionDriver, method, None)

    def _listen(self, operation: str, kind: str) -> None:
        setattr(self, f"process_{operation}_{kind}", partial(self._process, operation, kind))

    def attach(self, server: runtime.Runtime) -> None:
        self._server = server

    def extend_resources(self) -> Mapping[str, Sequence[Attribute]]:
        return {
            kind: [_attribute(name, definition) for name, definition in defined.items()]
            for kind, defined in self._definitions.items()
        }

    # --- changes ------------------------------------------------------------------------------------------------------

    def _process(
        self, operation: str, kind: str, values: Values, current: Values, network: Values, before: Values | None = None
    ) -> Values:
        """The values of the driver's attributes. Called again if the write loses a race."""
        own = self._definitions.get(kind, {})
        data = as_neutron(values if operation == "update" else {**current, **values})
        if operation == "create":
            data |= {name: _default(definition) for name, definition in own.items() if name not in values}
        result = as_neutron(current)
        context = neutron_context.get_admin_context()
        steps = {
            f"process_{operation}_{kind}": (context, data, result),
            f"extend_{kind}_dict": (Session(), Model(as_neutron(current)), result),
        }
        for method, arguments in steps.items():
            if self._overrides(method):
                self._call(method, current["id"], arguments)
        return {name: self._stored(name, result[name], kind) for name in own if name in result}

    def _call(self, method: str, key: str, arguments: Sequence[Any]) -> None:
        assert self._server is not None, "attached when the core is built"
        call = runtime.Call(self._server, self.name, method, key, error_of=_api_error)
        try:
            run_bounded(call, self._seconds, getattr(self._driver, method), *arguments)
        except Hanging as error:
            raise _failed(call) from error

    def _stored(self, name: str, value: Any, kind: str) -> object:
        if value is constants.ATTR_NOT_SPECIFIED:
            return None
        try:
            return msgspec.json.decode(msgspec.json.encode(value))
        except (TypeError, msgspec.MsgspecError):
            method = f"{name} of {kind}s, which has no form in JSON,"
            raise errors.ExtensionDriverError(method=method, driver=self.name) from None


def _failed(call: runtime.Call) -> errors.ExtensionDriverError:
    return errors.ExtensionDriverError(method=f"{call.method} of {call.object_id}", driver=call.driver)


def _api_error(call: runtime.Call, error: Exception) -> errors.ApiError:
    """What a client gets of an exception of the driver: neutron-lib's own with their status and type."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), None)
    if status is None:
        LOG.error("%s failed", call, exc_info=error)
        return _failed(call)
    made = type(type(error).__name__, (errors.ApiError,), {"status": status})
    answer: errors.ApiError = made(str(error))
    return answer


# --- definitions ------------------------------------------------------------------------------------------------------


def _extensions(aliases: Sequence[str]) -> tuple[list[Extension], dict[str, dict[str, Mapping[str, Any]]]]:
    """What the API extensions of these aliases add; an alias without a definition adds nothing."""
    made: list[Extension] = []
    defined: dict[str, dict[str, Mapping[str, Any]]] = {}
    for alias in aliases:
        descriptor = api_extensions.descriptor(alias)
        if descriptor is None:
            continue
        made.append(Extension(alias, descriptor.get_name(), descriptor.get_description()))
        for collection, added in descriptor.get_extended_resources("2.0").items():
            if collection in KINDS:
                defined.setdefault(KINDS[collection], {}).update(added)
    return made, defined


def _default(definition: Mapping[str, Any]) -> Any:
    return definition.get("default", constants.ATTR_NOT_SPECIFIED)


def _attribute(name: str, definition: Mapping[str, Any]) -> Attribute:
    default, post = _default(definition), bool(definition.get("allow_post"))
    type_ = Converted(name, definition)
    if post and "default" not in definition:
        default = REQUIRED
    elif default is constants.ATTR_NOT_SPECIFIED:
        default = UNSET
    else:
        default = type_.parse(default)
    visible, put = bool(definition.get("is_visible")), bool(definition.get("allow_put"))
    guarded = bool(definition.get("enforce_policy"))
    return Attribute(
        name, type_, post=post, put=put, default=default, visible=visible, shown_null=True, guarded=guarded
    )
