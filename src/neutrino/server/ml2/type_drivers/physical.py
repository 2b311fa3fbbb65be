"""What VLAN and flat networks know of a physical network."""

from __future__ import annotations

from oslo_config import cfg


def physical_mtu(conf: cfg.ConfigOpts, physical_network: str | None) -> int:
    """The physical network's own MTU where one is configured, else that of all of them."""
    own = {}
    for text in conf.ml2.physical_network_mtus:
        name, _, mtu = text.rpartition(":")
        own[name] = int(mtu)
    return int(own.get(physical_network or "", conf.global_physnet_mtu))
