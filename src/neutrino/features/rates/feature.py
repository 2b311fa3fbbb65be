"""Rates and drops of ports, routers and tunnels, from counters that hosts report now and then."""

from neutrino.features.rates.api import HOST_RULE, RULE, RatesApi
from neutrino.features.rates.reports import RateReports
from neutrino.server.api.definition import Extension
from neutrino.server.features import Feature, HostReports
from neutrino.server.policy.rules import ADMIN, READER, any_of
from neutrino.server.services import ResourcePlugin, Services


def build(services: Services) -> ResourcePlugin:
    return ResourcePlugin(routes=RatesApi(services.db, lambda: services.registry.clock()).routes)


def host_reports(services: Services) -> HostReports:
    return HostReports(rates=RateReports(services.db).take)


FEATURES = (
    Feature(
        name="rates",
        requires=("router",),
        extensions=(Extension("rates", "Rates", "Rates and drops of ports, routers and tunnels."),),
        build=build,
        policy={RULE: any_of(ADMIN, READER), HOST_RULE: ADMIN},
        host_reports=host_reports,
    ),
)
