"""Metering: counters of a router's traffic with the outside, one for each label. Pure.

A packet that the router forwards by its outside device passes `metering_forward`, after the filters, which therefore
drop uncounted, and after DNAT and before SNAT: rules see the addresses of the inside. For each label it takes a chain of
its direction: a rule that excludes it returns, then the first rule that matches counts it once and returns.

All of it is in a table of its own, whose counters keep their values while rules and labels change (`Table.counters`), and
which no other change of the router touches. Both namespaces of a distributed router count: `snat-…` what it translates,
`qrouter-…` the floating IPs of this host.
"""

from collections.abc import Iterator
from typing import Final

from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.names import counter
from neutrino.dataplane.nft.api import METERING, Chain, Hook, Table
from neutrino.model.routing import MeteringLabel, MeteringRule

_FORWARD: Final = Hook("filter", "forward", 10)  # after the filters, at 0
_DIRECTIONS: Final = {"ingress": "iifname", "egress": "oifname"}  # with the device towards the outside


class Metering(L3Extension):
    name = "metering"

    def render(self, namespace: RouterNamespace) -> Contribution:
        labels = namespace.router.metering_labels
        if not labels or not namespace.outside:
            return Contribution()
        chains = {(label.id, each): _chain(label, each) for label in labels for each in _DIRECTIONS}
        used = {key: chain for key, chain in chains.items() if chain.rules}
        jumps = (
            f'{_DIRECTIONS[direction]} "{namespace.outside}" jump {chain.name}'
            for (_, direction), chain in used.items()
        )
        forward = Chain("metering_forward", tuple(jumps), _FORWARD)
        counters = tuple(counter(label.id) for label in labels)
        return Contribution(tables=(Table((*used.values(), forward), name=METERING, counters=counters),))


def _chain(label: MeteringLabel, direction: str) -> Chain:
    own = [rule for rule in label.rules if rule.direction == direction]
    # Excluded first: a packet that one rule counts and another excludes is not counted.
    rules = (*(f"{_match(each)} return" for each in own if each.excluded), *_counting(label, own))
    return Chain(f"{direction}_{counter(label.id)}", rules)


def _counting(label: MeteringLabel, rules: list[MeteringRule]) -> Iterator[str]:
    for rule in rules:
        if not rule.excluded:
            yield f'{_match(rule)} counter name "{counter(label.id)}" return'


def _match(rule: MeteringRule) -> str:
    sides = (("saddr", rule.source), ("daddr", rule.destination))
    return " ".join(f"{'ip6' if ':' in prefix else 'ip'} {side} {prefix}" for side, prefix in sides if prefix)
