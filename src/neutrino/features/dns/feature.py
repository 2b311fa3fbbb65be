"""External DNS: records for ports and floating IPs in Designate, or by dynamic updates; names of ports are the core's."""

import logging
from dataclasses import dataclass

from oslo_config import cfg

from neutrino.features.dns.driver_api import DnsDriver
from neutrino.features.dns.options import OPTIONS
from neutrino.features.dns.publisher import Publisher
from neutrino.features.dns.records import Recorder
from neutrino.features.dns.wanted import ProjectRanges
from neutrino.server.api.definition import Extension
from neutrino.server.db.session import Database
from neutrino.server.features import Feature, Running
from neutrino.server.ipam.ranges import Range
from neutrino.server.ml2.type_drivers import HIGHEST_VLAN, LOWEST_VLAN, parse_ranges
from neutrino.server.services import ResourcePlugin, Services, load

LOG = logging.getLogger(__name__)
DRIVERS = "neutrino.external_dns_drivers"
DEFAULT_DOMAIN = "openstacklocal"  # with it, as without one, Neutron publishes no names of ports


@dataclass(frozen=True)
class ExternalDns:
    recorder: Recorder
    publisher: Publisher


def build_dns(conf: cfg.ConfigOpts, db: Database) -> ExternalDns:
    driver: DnsDriver = load(DRIVERS, conf.external_dns_driver)(conf)
    recorder = Recorder(db, project_ranges(conf), publishes_ports=_has_own_domain(conf))
    publisher = Publisher(db, driver, recorder.sweep, private=recorder.private_addresses)
    recorder.recorded, recorder.network_changed = publisher.wake, publisher.recheck
    return ExternalDns(recorder, publisher)


def start(services: Services) -> Running:
    """In the feed process it records, and the API workers publish; without a driver it does neither."""
    if not services.conf.external_dns_driver:
        return Running()
    dns = build_dns(services.conf, services.db)
    return Running(closing=dns.recorder.record, begin=dns.publisher.start, close=dns.publisher.close)


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


FEATURES = (
    Feature(
        name="dns",
        reads=("router",),
        always=True,
        extensions=(
            Extension("dns-integration", "DNS Integration", "DNS names of ports and networks."),
            Extension("dns-domain-ports", "dns_domain for ports", "The DNS domain of a port."),
            Extension(
                "dns-integration-domain-keywords",
                "DNS domain names with keywords allowed",
                "A DNS domain may contain the id or name of the project or user.",
            ),
            Extension(
                "subnet-dns-publish-fixed-ip",
                "Subnet DNS publish fixed IP",
                "Whether DNS records of a subnet's addresses are public.",
            ),
        ),
        build=lambda services: ResourcePlugin(),
        options=OPTIONS,
        start=start,
        report=report_default_domain,
    ),
)
