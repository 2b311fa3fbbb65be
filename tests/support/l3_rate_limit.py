"""A third-party extension of the L3 role: limits the rate of floating IPs."""

from __future__ import annotations

from oslo_config import cfg

from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace, RouterResult
from neutrino.dataplane.nft.api import Chain, Hook, Table, nft_set

# Before DNAT (-100), where the destination still is the floating IP. A chain of its own sees every packet, whatever the
# chains of other extensions accept.
HOOK = Hook("filter", "prerouting", -140)


class RateLimit(L3Extension):
    name = "rate limit"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        conf.register_opt(cfg.IntOpt("rate_limit_kbit", default=10_000, min=8, help="Limit of each floating IP."))
        self.kbit = conf.rate_limit_kbit
        self.results: list[RouterResult] = []

    def render(self, namespace: RouterNamespace) -> Contribution:
        addresses = [each.floating_ip_address for each in namespace.router.floating_ips]
        if not namespace.outside or not addresses:
            return Contribution()
        limits = {address: f"fip_{address.replace('.', '_')}" for address in addresses}
        table = Table(
            family="ip",
            declarations=tuple(
                f"limit {name} {{\nrate over {self.kbit // 8} kbytes/second;\n}}" for name in limits.values()
            ),
            sets=(nft_set("rate_limits", "ipv4_addr : limit", (f"{ip} : {name}" for ip, name in limits.items())),),
            chains=(Chain("rate_limit", ("limit name ip daddr map @rate_limits drop",), HOOK),),
        )
        return Contribution(tables=(table,))

    def applied(self, result: RouterResult) -> None:
        self.results.append(result)
