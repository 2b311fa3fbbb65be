"""All resources that the modules of `server/api/resources` declare."""

from __future__ import annotations

import importlib
import pkgutil

from neutrino.server.api import resources
from neutrino.server.api.definition import Resource

_MODULES = [
    importlib.import_module(f"{resources.__name__}.{found.name}") for found in pkgutil.iter_modules(resources.__path__)
]
RESOURCES = [value for module in _MODULES for value in vars(module).values() if isinstance(value, Resource)]
