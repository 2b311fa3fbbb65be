"""The firewall on the Linux bridge of a hybrid port, between the instance's tap and the switch."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from neutrino.agent.l2.hybrid.render import FALLBACK, STATE, mark_of, port_chain, port_device
from neutrino.agent.trace import group_rules
from neutrino.agent.trace.netfilter import nft
from neutrino.agent.trace.netfilter.iptables import ACCEPT, DROP, BridgedPacket, Verdict, evaluate
from neutrino.agent.trace.netfilter.xtables import AllRules
from neutrino.agent.trace.packets import version
from neutrino.agent.trace.switch import SwitchState
from neutrino.agent.trace.trail import Trail
from neutrino.dataplane.conntrack.api import ICMPV6
from neutrino.dataplane.inspection.api import Inspection, InspectionError
from neutrino.dataplane.iptables.api import Iptables, IptablesError, SavedRules
from neutrino.dataplane.netlink.api import Netlink
from neutrino.dataplane.netlink.values import HOST
from neutrino.model.objects import Values
from neutrino.model.state import Port
from neutrino.model.trace import Cause, Packet

_ADVERTISEMENT: Final = 134
_CAUSES: Final = {"egress": Cause.SECURITY_GROUP_EGRESS, "ingress": Cause.SECURITY_GROUP_INGRESS}


@dataclasses.dataclass(frozen=True)
class HybridFilter:
    """Implements `PortFilter`. Blocking."""

    iptables: Iptables
    netlink: Netlink
    inspection: Inspection | None = None  # of rules of others, which frames of bridges pass too

    def passes(self, port: Port, packet: Packet, direction: str, state: SwitchState, trail: Trail) -> bool:
        tap, inner = port_device("tap", port.id), port_device("qvb", port.id)
        owner = "port", port.id
        for name in (tap, inner):
            device = self.netlink.read_device(HOST, name)
            if device is None or not device.up:
                trail.drop(packet, Cause.NO_DEVICE, f"device {name} {'is down' if device else 'does not exist'}")
                return False
            if device.mtu and packet.size > device.mtu:
                trail.drop(packet, Cause.PACKET_TOO_BIG, f"{packet.size} bytes; device {name} takes {device.mtu}")
                return False
        bridged = BridgedPacket(
            *(packet.eth_src, packet.source, packet.destination, packet.protocol),
            *(packet.source_port, packet.destination_port, packet.icmp_code),
            *((tap, inner) if direction == "egress" else (inner, tap)),
            state="ESTABLISHED" if packet.reply else "NEW",
            reply=packet.reply,
        )
        try:
            rules = self.iptables.read_rules(version(packet)).get("filter", {})
            sets = self.iptables.read_sets()
        except IptablesError as error:
            raise InspectionError(str(error)) from error
        saved = self.inspection.iptables(HOST, version(packet)) if self.inspection is not None else ()
        verdict = evaluate(rules, sets, "FORWARD", bridged, _policy(saved))
        for each in verdict.unknown:
            trail.observe("iptables", tap, "unknown", owner=owner, note=f"a match that is not understood here: {each}")
        text = f"-A {verdict.chain} {verdict.rule.text}" if verdict.rule is not None else ""
        if verdict.result == "ACCEPT" and (fault := self._dropped_by_others(port, bridged, saved)):
            trail.drop(packet, Cause.DRIFT, fault)
            return False
        if verdict.result == "ACCEPT":
            named = next(group_rules.allowing_any(state.view.desired, port, packet, direction), None)
            note = group_rules.describe(named[1], named[0]) if named is not None and not packet.reply else ""
            who = ("security_group_rule", named[1].id) if note and named is not None else owner
            trail.observe("iptables", tap, "accept", owner=who, text=text, note=note)
            return True
        cause, note = self._cause(verdict, port, packet, direction)
        trail.observe("iptables", tap, "drop", owner=owner, text=text, note=f"chain {verdict.chain}")
        trail.drop(packet, cause, note)
        return False

    def _dropped_by_others(self, port: Port, bridged: BridgedPacket, saved: Sequence[SavedRules]) -> str:
        """Why tables that do not have our chains drop the packet: nft's, and those of the other variant of iptables."""
        if self.inspection is None:
            return ""
        bridge = port_device("qbr", port.id)
        seen = nft.NftPacket(
            *(bridged.source, bridged.destination, bridged.protocol),
            source_port=bridged.source_port,
            destination_port=bridged.destination_port,
            icmp_code=bridged.icmp_code,
            iif=bridge,
            oif=bridge,
            ct_state=nft.ESTABLISHED if bridged.reply else nft.NEW,
            reply=bridged.reply,
            eth_src=bridged.mac,
        )
        others = [each for each in saved if not _has_ours(each)]
        is_nft = any(_has_ours(each) and each.variant == "nft" for each in saved)
        ruleset = [item for item in self.inspection.ruleset(HOST) if not (is_nft and _is_of_filter(item))]
        rules = AllRules(ruleset, others)
        for chain in rules.base_chains("forward", seen.version):
            hits: list[nft.Hit] = []
            if chain.kind != "nat" and rules.run(chain, seen, hits) in (nft.DROP, nft.REJECT):
                return f"a rule that is not this agent's: chain {hits[-1].chain} of table {chain.table} drops it"
        return ""

    @staticmethod
    def _cause(verdict: Verdict, port: Port, packet: Packet, direction: str) -> tuple[Cause, str]:
        if verdict.rule is None:
            return Cause.DRIFT, f"the policy of chain {verdict.chain}, which is not this agent's, drops it"
        if not mark_of(verdict.rule):
            return Cause.DRIFT, f"a rule of chain {verdict.chain} that is not this agent's drops it"
        if verdict.chain == port_chain("s", port.id):
            return Cause.ADDRESS_SPOOFED, f"{packet.source} with MAC {packet.eth_src} is not an address of the port"
        if verdict.chain in (FALLBACK, STATE):
            return _CAUSES[direction], "no rule of the port's security groups allows it"
        if verdict.chain == port_chain("o", port.id) and verdict.result == DROP:
            if packet.protocol == ICMPV6 and packet.destination_port == _ADVERTISEMENT:
                return Cause.RA_GUARD, "instances may not send router advertisements"
            return Cause.DHCP_SERVER_GUARD, "instances may not send DHCP replies"
        return Cause.OTHER, f"chain {verdict.chain} drops it"


def _has_ours(saved: SavedRules) -> bool:
    """Whether it is the variant that the agent uses."""
    return FALLBACK in saved.tables.get("filter", {})


def _policy(saved: Sequence[SavedRules]) -> str:
    """That of the chain in which our rules are: a host with containers often has DROP."""
    own = (each.policies.get("filter", {}) for each in saved if _has_ours(each))
    return next(own, {}).get("FORWARD", ACCEPT)


def _is_of_filter(item: Values) -> bool:
    """Whether an object of nft's list is of iptables' table `filter`."""
    return any(
        value.get("family") in ("ip", "ip6") and "filter" in (value.get("table"), value.get("name"))
        for value in item.values()
    )
