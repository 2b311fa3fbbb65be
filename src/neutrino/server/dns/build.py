"""Builds external DNS from the configuration; nothing, if there is no `external_dns_driver`."""

import logging
from dataclasses import dataclass

from oslo_config import cfg

from neutrino.server.db.session import Database
from neutrino.server.dns.driver_api import DnsDriver
from neutrino.server.dns.publisher import Publisher
from neutrino.server.dns.records import Recorder
from neutrino.server.dns.wanted import ProjectRanges
from neutrino.server.ipam.ranges import Range
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.type_drivers import HIGHEST_VLAN, LOWEST_VLAN, parse_ranges
from neutrino.server.services import load

LOG = logging.getLogger(__name__)
DRIVERS = "neutrino.external_dns_drivers"
DEFAULT_DOMAIN = "openstacklocal"  # with it, as without one, Neutron publishes no names of ports


@dataclass(frozen=True)
class ExternalDns:
    recorder: Recorder
    publisher: Publisher

    def start(self) -> None:
        self.publisher.start()

    def close(self) -> None:
        self.publisher.close()


def build_dns(conf: cfg.ConfigOpts, db: Database, operations: Operations) -> ExternalDns | None:
    """Opens and starts nothing: `start` is called in the processes that serve the API."""
    if not conf.external_dns_driver:
        return None
    driver: DnsDriver = load(DRIVERS, conf.external_dns_driver)(conf)
    recorder = Recorder(db, project_ranges(conf), publishes_ports=_has_own_domain(conf))
    publisher = Publisher(db, driver, recorder.sweep, private=recorder.private_addresses)
    recorder.recorded, recorder.network_changed = publisher.wake, publisher.recheck
    operations.closing_hooks.append(recorder.record)
    return ExternalDns(recorder, publisher)


def project_ranges(conf: cfg.ConfigOpts) -> ProjectRanges:
    tunnels = {
        "gre": conf.ml2_type_gre.tunnel_id_ranges,
        "vxlan": conf.ml2_type_vxlan.vni_ranges,
        "geneve": conf.ml2_type_geneve.vni_ranges,
    }
    vlans: dict[str, tuple[Range, ...]] = {}
    for text in conf.ml2_type_vlan.network_vlan_ranges:
        name, _, span = text.partition(":")
        spans = parse_ranges([span], LOWEST_VLAN, HIGHEST_VLAN, "network_vlan_ranges") if span else ()
        vlans[name] = (*vlans.get(name, ()), *spans)
    return ProjectRanges({name: parse_ranges(texts, 1, 2**31 - 1, name) for name, texts in tunnels.items()}, vlans)


def _has_own_domain(conf: cfg.ConfigOpts) -> bool:
    return conf.dns_domain.strip(".").lower() not in ("", DEFAULT_DOMAIN)


def report_default_domain(conf: cfg.ConfigOpts) -> None:
    """Log that names of ports are not published, which surprises an operator who has configured a DNS service."""
    if conf.external_dns_driver and not _has_own_domain(conf):
        LOG.warning(
            "external_dns_driver: names of ports are not published, because dns_domain is %s: set dns_domain to a domain "
            "of your own; floating IPs with a dns_name are published",
            conf.dns_domain or "empty",
        )
