"""Rules in the host's own namespace that drop packets of tunnels: those of a firewall that does not know them.

Only the kernel's datapath sends and gets them by the kernel's stack, through its rules; the userspace datapath reads and
writes frames of the uplinks. The packet has no connection: source ports of tunnels differ in each direction.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from neutrino.agent.trace.netfilter import nft
from neutrino.agent.trace.netfilter.xtables import AllRules
from neutrino.dataplane.conntrack.api import UDP
from neutrino.dataplane.inspection.api import Inspection, Tuple5
from neutrino.dataplane.netlink.values import HOST

VXLAN_PORT: Final = 4789
_GRE: Final = 47
_PORTS: Final = {"vxlan": VXLAN_PORT, "geneve": 6081}
_SIZE: Final = 134  # of a ping in a tunnel
_SOURCE_PORT: Final = 49152
_SENT, _RECEIVED = ("output", "postrouting"), ("prerouting", "input")


@dataclasses.dataclass(frozen=True)
class HostRules:
    inspection: Inspection
    vxlan_port: int = VXLAN_PORT

    def fault(self, kind: str, local: str, peer: str, *, sent: bool) -> str:
        """Why rules drop packets of a tunnel to a peer, or from it; empty if they do not, or that is not known."""
        route = self.inspection.route(HOST, Tuple5(0, "", peer), "")
        port = self.vxlan_port if kind == "vxlan" else _PORTS.get(kind, 0)
        packet = nft.NftPacket(
            *((local, peer) if sent else (peer, local)),
            UDP if port else _GRE,
            source_port=_SOURCE_PORT if port else 0,
            destination_port=port,
            size=_SIZE,
            iif="" if sent else route.device,
            oif=route.device if sent else "",
        )
        rules = AllRules(self.inspection.ruleset(HOST), self.inspection.iptables(HOST, packet.version))
        for hook in _SENT if sent else _RECEIVED:
            for chain in rules.base_chains(hook, packet.version):
                hits: list[nft.Hit] = []
                if chain.kind != "nat" and rules.run(chain, packet, hits) in (nft.DROP, nft.REJECT):
                    what = f"UDP port {port}" if port else "GRE"
                    return f"chain {hits[-1].chain} of table {chain.table} of this host drops {what} ({kind})"
        return ""

    def problems(self, kinds: Iterable[str], local: str, peer: str) -> Iterator[str]:
        """What the rules drop of tunnels of these kinds, in either direction."""
        for kind in sorted(set(kinds)):
            for sent in (True, False):
                if fault := self.fault(kind, local, peer, sent=sent):
                    yield f"{fault} {'to' if sent else 'from'} {peer}"
