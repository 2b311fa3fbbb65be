"""All resources: those that modules of `server/api/resources` and packages of features declare, with added attributes."""

from __future__ import annotations

import importlib.util
import pkgutil

import neutrino.features
from neutrino.server import features
from neutrino.server.access import rbac
from neutrino.server.api import resources
from neutrino.server.api.definition import Resource
from neutrino.server.api.resources.rbac_policy import rbac_policy
from neutrino.server.ml2.attributes import extended

_CORE = [f"{resources.__name__}.{found.name}" for found in pkgutil.iter_modules(resources.__path__)]
_FEATURES = [
    f"{package.name}.{module}"
    for package in pkgutil.iter_modules(neutrino.features.__path__, "neutrino.features.")
    for module in ("resources", "feature")
    if importlib.util.find_spec(f"{package.name}.{module}")
]
_MODULES = [importlib.import_module(name) for name in (*_CORE, *_FEATURES)]
_DECLARED = {id(value): value for module in _MODULES for value in vars(module).values() if isinstance(value, Resource)}
_ADDED = {
    "network": [one for feature in features.installed() for one in feature.network_attributes],
    "port": [one for feature in features.installed() for one in feature.port_attributes],
}
_SHARED = [*rbac.CORE, *(one for feature in features.installed() for one in feature.shared)]
RESOURCES = [
    *(extended(resource, _ADDED.get(resource.name, ())) for resource in _DECLARED.values()),
    rbac_policy(tuple(one.kind for one in _SHARED)),
]
