"""Modules under Neutron's names, for drivers that import `neutron` itself: what is here is all they get.

`install` puts them into `sys.modules`, and a finder before all others refuses the rest of `neutron`, also where Neutron is
installed: its code would open Neutron's database.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from neutrino.server.ml2.neutron_drivers.provided import (
    api_extensions,
    database,
    i18n,
    mech_agent,
    ml2_exceptions,
    objects,
    provisioning_blocks,
    segments_db,
    trunk_driver,
)

MODULES: dict[str, ModuleType] = {
    "neutron._i18n": i18n,
    "neutron.api.extensions": api_extensions,
    "neutron.db.provisioning_blocks": provisioning_blocks,
    "neutron.db.segments_db": segments_db,
    "neutron.plugins.ml2.common.exceptions": ml2_exceptions,
    "neutron.plugins.ml2.drivers.mech_agent": mech_agent,
    "neutron.services.trunk.drivers.base": trunk_driver,
}
OBJECTS = {
    "neutron.objects.network": ("Network", "NetworkSegment"),
    "neutron.objects.ports": ("Port", "PortBindingLevel"),
    "neutron.objects.subnet": ("Subnet",),
    "neutron.objects.trunk": ("SubPort", "Trunk"),
}
CONTEXTS = "neutron.plugins.ml2.driver_context"


class NotProvidedModule(ModuleNotFoundError):
    """Drivers that can do without a module catch ImportError."""


class _Refusal(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "neutron" or fullname.startswith("neutron."):
            known = ", ".join(sorted([*MODULES, *OBJECTS, CONTEXTS]))
            raise NotProvidedModule(
                f"module {fullname} of Neutron is not provided to drivers; provided are {known}", name=fullname
            )
        return None


def install() -> None:
    if any(isinstance(finder, _Refusal) for finder in sys.meta_path):
        return
    if "neutron" in sys.modules:
        raise RuntimeError("Neutron itself is loaded in this process")
    for name, module in MODULES.items():
        _place(name, module)
    for name, classes in OBJECTS.items():
        module = ModuleType(name, objects.__doc__)
        vars(module).update({one: getattr(objects, one) for one in classes})
        _place(name, module)
    # Imported here: it needs the plugin directory, and so neutron-lib's database layer, which takes time.
    from neutrino.server.ml2.neutron_drivers import contexts

    _place(CONTEXTS, contexts)
    database.replace_sessions()
    sys.meta_path.insert(0, _Refusal())


def _place(name: str, module: ModuleType) -> None:
    """Under this name, with the packages above it."""
    *above, last = name.split(".")
    package = None
    for i in range(1, len(above) + 1):
        path = ".".join(above[:i])
        if path not in sys.modules:
            made = ModuleType(path, __doc__)
            made.__path__ = []
            sys.modules[path] = made
            if package is not None:
                setattr(package, above[i - 1], made)
        package = sys.modules[path]
    assert package is not None
    setattr(package, last, module)
    sys.modules[name] = module
