"""All resources: those that modules of `server/api/resources` and packages of features declare."""

from __future__ import annotations

import importlib.util
import pkgutil

import neutrino.features
from neutrino.server.api import resources
from neutrino.server.api.definition import Resource

_CORE = [f"{resources.__name__}.{found.name}" for found in pkgutil.iter_modules(resources.__path__)]
_FEATURES = [
    f"{package.name}.{module}"
    for package in pkgutil.iter_modules(neutrino.features.__path__, "neutrino.features.")
    for module in ("resources", "feature")
    if importlib.util.find_spec(f"{package.name}.{module}")
]
_MODULES = [importlib.import_module(name) for name in (*_CORE, *_FEATURES)]
RESOURCES = list(
    {id(value): value for module in _MODULES for value in vars(module).values() if isinstance(value, Resource)}.values()
)
