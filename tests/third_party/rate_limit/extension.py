"""The hosts' half of rate limits: a meter for the packets of each limited port."""

from collections.abc import Iterable

from oslo_config import cfg

from neutrino.agent.l2.desired import Desired, L2Options
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, port_owner, use_meter
from neutrino.dataplane.openflow.api import Meter
from tests.third_party.rate_limit.model import KIND, RateLimit


class RateLimits(L2Extension):
    name = "rate limit"
    new_kinds = (KIND,)
    kinds = frozenset({KIND.name})
    has_table = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """The extension has no options."""

    def units(self, desired: Desired) -> Iterable[Unit]:
        limits = {limit.port_id: limit for limit in desired.objects.get(KIND.name, {}).values()}
        for port in desired.ports:
            if port.id in limits:
                yield Unit(port_owner(port), (desired.options, port.ofport, limits[port.id]), _render)


def _render(options: L2Options, ofport: int, limit: RateLimit) -> Contribution:
    table, meter = options.extension_table(RateLimits.name), f"packets-{limit.port_id}"
    limited = table.flow(1, f"in_port={ofport}", use_meter(meter), then=options.after_extension(table))
    meters = {options.integration_bridge: {meter: Meter(limit.packets_per_second)}}
    return Contribution(flows={options.integration_bridge: [limited]}, meters=meters)
