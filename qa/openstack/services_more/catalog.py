"""The list of all checks of `make openstack`: those of Nova, then those of further services."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qa.openstack.checks import CHECKS
from qa.openstack.cloud import Cloud
from qa.openstack.services import EVERYTHING, NETWORKING
from qa.openstack.services_more.heat_stacks import check_heat
from qa.openstack.services_more.horizon_pages import check_horizon
from qa.openstack.services_more.ironic import check_ironic
from qa.openstack.services_more.octavia import check_octavia
from qa.openstack.services_more.tempest import check_tempest

# In the order in which they run.
MORE_CHECKS: dict[str, Callable[[Cloud], str]] = {
    "heat": check_heat,
    "octavia": check_octavia,
    "ironic": check_ironic,
    "horizon": check_horizon,
    "tempest": check_tempest,
}
ALL_CHECKS = {**CHECKS, **MORE_CHECKS}
# Hours of tests, so only on request: `--only tempest`.
ON_REQUEST = ("tempest",)
DEFAULT_CHECKS = tuple(name for name in ALL_CHECKS if name not in ON_REQUEST)
# The services of the cloud that a check needs, if not all.
NEEDS: dict[str, tuple[str, ...]] = {
    "octavia": NETWORKING,
    "ironic": NETWORKING,
    "horizon": NETWORKING,
}


def services_for(names: Sequence[str]) -> tuple[str, ...]:
    """The services that the checks need, in the order in which they start."""
    needed = {service for name in names for service in NEEDS.get(name, EVERYTHING)}
    return tuple(service for service in EVERYTHING if service in needed)
