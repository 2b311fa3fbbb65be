"""Options of external DNS: Neutron's names for Designate, and our own for dynamic updates (RFC 2136)."""

from collections.abc import Mapping, Sequence

from oslo_config import cfg

from neutrino.configuration.neutron_values import name_type

ALGORITHMS = ("hmac-sha256", "hmac-sha384", "hmac-sha512", "hmac-sha224", "hmac-sha1", "hmac-md5")

_GENERAL = [
    cfg.Opt(
        "external_dns_driver",
        type=name_type("DEFAULT", "external_dns_driver"),
        default="",
        help="Where records of ports and floating IPs are published: 'designate', 'rfc2136', or empty for nowhere.",
    ),
]
_DESIGNATE = [  # keystoneauth registers its own options in this group (`designate.py`)
    cfg.URIOpt(
        "url", schemes=["http", "https"], help="Designate's endpoint; if not set, it is found in the catalogue."
    ),
    cfg.StrOpt("region_name", help="The region of Designate's endpoint."),
    cfg.BoolOpt(
        "allow_reverse_dns_lookup", default=True, help="Publish PTR records, in zones of the service's project."
    ),
    cfg.IntOpt(
        "ipv4_ptr_zone_prefix_size",
        default=24,
        min=8,
        max=24,
        help="Prefix length of the zones for reverse lookups of IPv4 addresses: a multiple of 8.",
    ),
    cfg.IntOpt(
        "ipv6_ptr_zone_prefix_size",
        default=120,
        min=4,
        max=124,
        help="Prefix length of the zones for reverse lookups of IPv6 addresses: a multiple of 4.",
    ),
    cfg.StrOpt(
        "ptr_zone_email", default="", help="Contact of new reverse zones; if not set, admin@ and the DNS domain."
    ),
]
_RFC2136 = [
    cfg.HostAddressOpt("server", help="Address of the primary name server, which receives the updates."),
    cfg.PortOpt("port", default=53, help="Its port."),
    cfg.ListOpt("zones", default=[], help="The zones that may be written; names in other zones are not published."),
    cfg.StrOpt("tsig_key_file", help="File with the TSIG key, as tsig-keygen writes it."),
    cfg.StrOpt("tsig_name", help="Name of the TSIG key, in place of a file."),
    cfg.StrOpt("tsig_secret", secret=True, help="The TSIG key, in base64."),
    cfg.StrOpt("tsig_algorithm", default="hmac-sha256", choices=ALGORITHMS, help="Algorithm of the TSIG key."),
    cfg.IntOpt("ttl", default=300, min=0, max=2**31 - 1, help="TTL of the records, in seconds."),
    # At most: a few messages are sent for a record set, within the lease of its claim (`publisher.py`).
    cfg.FloatOpt("timeout", default=5.0, min=0.1, max=10.0, help="Seconds to wait for an answer of the name server."),
]
OPTIONS: Mapping[str | None, Sequence[cfg.Opt]] = {None: _GENERAL, "designate": _DESIGNATE, "rfc2136": _RFC2136}
