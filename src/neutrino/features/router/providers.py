"""Service providers of routers: the kinds that a flavor chooses by the driver of its service profile. Pure.

Drivers have the names of Neutron's classes, so that profiles made for it select the same kind.
"""

from dataclasses import dataclass
from typing import Final

from neutrino.features.router.routers.rules import refuse
from neutrino.model.objects import Object, Values

_DRIVERS: Final = "neutron.services.l3_router.service_providers"


@dataclass(frozen=True)
class Provider:
    name: str
    driver: str
    distributed: bool = False
    ha: bool = False

    def kind(self, values: Values) -> Object:
        """The kind of a router, refused if the request wants another one."""
        found = {"distributed": self.distributed, "ha": self.ha}
        for name, value in found.items():
            requested = values.get(name)
            if requested is not None and requested != value:
                raise refuse(f"provider {self.name} of the flavor does not support {name}={requested}")
        return found


PROVIDERS: Final = (  # the first is the default
    Provider("single_node", f"{_DRIVERS}.single_node.SingleNodeDriver"),
    Provider("ha", f"{_DRIVERS}.ha.HaDriver", ha=True),
    Provider("dvr", f"{_DRIVERS}.dvr.DvrDriver", distributed=True),
    Provider("dvrha", f"{_DRIVERS}.dvrha.DvrHaDriver", distributed=True, ha=True),
)
BY_DRIVER: Final = {provider.driver: provider for provider in PROVIDERS}
