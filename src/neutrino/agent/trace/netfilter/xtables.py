"""The rules of a namespace: those of nft, and those of iptables among them, in the order in which packets pass them. Pure.

Tables of iptables-nft are nft tables too, but matches and targets that nft does not have are opaque there (`xt`): such a
table is evaluated as iptables has it. Translations by iptables are not evaluated: ours are nft's.
"""

from collections.abc import Sequence
from typing import Final

from neutrino.agent.trace.netfilter import nft
from neutrino.agent.trace.netfilter.iptables import ACCEPT, REJECT, BridgedPacket, evaluate
from neutrino.dataplane.inspection.api import Ruleset
from neutrino.dataplane.iptables.api import SavedRules

_PRIORITIES: Final = {"raw": -300, "mangle": -150, "filter": 0}
_FAMILIES: Final = ("ip", "ip6")
_HARMLESS: Final = "comment"  # an extension that matches everything
_STATES: Final = {nft.ESTABLISHED: "ESTABLISHED", nft.INVALID: "INVALID"}


class AllRules:
    def __init__(self, ruleset: Ruleset, saved: Sequence[SavedRules] = ()) -> None:
        """`saved`: of the IP version of the packets."""
        opaque = _opaque_tables(ruleset)
        self._iptables = {
            f"iptables-{each.variant} {table}": (chains, each.policies.get(table, {}))
            for each in saved
            for table, chains in each.tables.items()
            if table in _PRIORITIES and (each.variant == "legacy" or table in opaque)
        }
        covered = opaque & {name.partition(" ")[2] for name in self._iptables if name.startswith("iptables-nft ")}
        self._nft = nft.Rules([item for item in ruleset if not _is_of(item, covered)])

    def base_chains(self, hook: str, version: int) -> list[nft.Chain]:
        """The base chains of a hook, in the order in which packets pass them."""
        found = self._nft.base_chains(hook, version)
        for table, (chains, policies) in self._iptables.items():
            if hook.upper() in chains:
                priority = _PRIORITIES[table.partition(" ")[2]]
                policy = policies.get(hook.upper(), ACCEPT).lower()
                found.append(nft.Chain(table, hook.upper(), hook, "filter", priority, policy))
        return sorted(found, key=lambda each: each.priority)

    def run(self, chain: nft.Chain, packet: nft.NftPacket, hits: list[nft.Hit]) -> str:
        """The verdict of a base chain; what rules did on the way is in `hits`."""
        if chain.table not in self._iptables:
            return self._nft.run(chain, packet, hits)
        chains, policies = self._iptables[chain.table]
        verdict = evaluate(chains, {}, chain.name, _converted(packet), policies.get(chain.name, ACCEPT))
        for each in verdict.unknown:
            note = f"a match that is not understood here: {each}"
            hits.append(nft.Hit(chain.table, chain.name, "unknown", note=note))
        if verdict.result == ACCEPT:
            return nft.ACCEPT
        effect = nft.REJECT if verdict.result == REJECT else nft.DROP
        text = f"-A {verdict.chain} {verdict.rule.text}" if verdict.rule is not None else ""
        note = "" if text else "the chain's policy"
        hits.append(nft.Hit(chain.table, verdict.chain, effect, text, commented=False, note=note))
        return effect


def _opaque_tables(ruleset: Ruleset) -> frozenset[str]:
    """Names of tables with rules that nft cannot show."""
    rules = (item["rule"] for item in ruleset if "rule" in item)
    return frozenset(
        str(rule["table"])
        for rule in rules
        if rule.get("family") in _FAMILIES
        and any(each.get("xt", {}).get("name", _HARMLESS) != _HARMLESS for each in rule.get("expr", ()))
    )


def _is_of(item: object, tables: frozenset[str]) -> bool:
    """Whether an object of the list belongs to one of these tables of iptables."""
    assert isinstance(item, dict)
    return any(value.get("family") in _FAMILIES and value.get("table") in tables for value in item.values())


def _converted(packet: nft.NftPacket) -> BridgedPacket:
    return BridgedPacket(
        *(packet.eth_src, packet.source, packet.destination, packet.protocol),
        source_port=packet.source_port,
        destination_port=packet.destination_port,
        icmp_code=packet.icmp_code,
        device_in=packet.iif,
        device_out=packet.oif,
        tcp_flags=packet.tcp_flags,
        state=_STATES.get(packet.ct_state, "NEW"),
        reply=packet.reply,
        mark=packet.mark,
    )
