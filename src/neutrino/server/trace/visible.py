"""What a caller sees of a trace: the response of the API; for members, without details of other projects. Pure.

An administrator sees everything. A member sees the steps of its own project's objects, without hosts. Consecutive steps
that concern other projects are one step, the same whatever they are: "no port has the address", "the port's security group
drops it" and "the port is down" cannot be told apart, because each would disclose what another project has. That the packet
arrives is shown: a real packet would show it too.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from neutrino.model.trace import Cause, Observation, Packet, Verdict
from neutrino.server.context import Context
from neutrino.server.trace.collect import Collected
from neutrino.server.trace.compare import DATAPLANE, Note, Result
from neutrino.server.trace.steps.walk import contains
from neutrino.server.trace.values import DROP, INFO, PASS, Path, Snapshot, Step

Object = dict[str, Any]
OTHERS = "other-project"
_OPEN = ("host", "next-hop", "physical-network", OTHERS)  # steps that leave the verdict open
OUTSIDE = "The packet leaves to the outside, by an external network."
FORGED = "What other projects' objects do with a source that is not the sender's is not shown."


def is_dropped_by_others(path: Path, context: Context, snapshot: Snapshot) -> bool:
    """Whether a member's packet is dropped at an object of another project."""
    last = path.steps[-1] if path.steps else None
    return not context.is_admin and last is not None and last.result == DROP and not _is_own(context, snapshot)(last)


def without_forged(path: Path, sender: str, context: Context, snapshot: Snapshot) -> Path:
    """For members, the path of a packet with a forged source ends before other projects' objects.

    A port without port security sends from any source. Nobody who does so gets a reply: by the verdict, a member could find
    out which sources the rules of another project allow.
    """
    port = snapshot.ports.get(sender)
    if context.is_admin or port is None:
        return path
    own = [f.ip_address for f in port.port.fixed_ips] + [p.ip_address for p in port.port.allowed_address_pairs]
    first = path.steps[0].packet if path.steps else None
    if first is None or any(contains(each, first.source) for each in own):
        return path
    is_own = _is_own(context, snapshot)
    kept = tuple(itertools.takewhile(is_own, path.steps))
    if len(kept) == len(path.steps):
        return path
    end = Step(kind=OTHERS, result=INFO, text=FORGED)
    return Path(steps=(*kept, end), verdict=Verdict.UNKNOWN, cause=Cause.OTHER, packet=first)


def steps_of(path: Path, result: Result, collected: Collected, *, flows: bool) -> list[Step]:
    """The steps, with those flows and rules of the hosts that belong to them."""
    steps = list(path.steps)
    if result.verdict is not Verdict.DROPPED and steps and steps[-1].result == DROP:
        steps[-1] = msgspec.structs.replace(steps[-1], result=INFO)  # the dataplane lets it pass
    if result.step is not None:
        steps.append(result.step)
    return _with_flows(steps, collected) if flows else steps


def _with_flows(steps: list[Step], collected: Collected) -> list[Step]:
    """Each observation belongs to the step of its object on its host, or to the one before it."""
    cursor = 0
    for asked in collected.asked:
        on_host = [number for number, step in enumerate(steps) if step.host == asked.host]
        here = next((number for number in on_host if number >= cursor), on_host[0] if on_host else None)
        if here is None or asked.answer is None:
            continue
        cursor = here
        for observation in asked.answer.observations:
            if not observation.text and not observation.note:
                continue
            later = (n for n in on_host if n >= cursor and steps[n].resource_id == observation.owner_id)
            cursor = next(later, cursor) if observation.owner_id else cursor
            flows = (*steps[cursor].flows, _flow(observation))
            steps[cursor] = msgspec.structs.replace(steps[cursor], flows=flows)
    return steps


def _flow(observation: Observation) -> str:
    table = f" table {observation.table}" if observation.table is not None else ""
    what = observation.text or observation.note
    return f"{observation.where}{table}: {what}"


def shown_steps(steps: Sequence[Step], context: Context, snapshot: Snapshot) -> list[Object]:
    if context.is_admin:
        return [_shown(step) for step in steps]
    return [_shown(step) for step in _reduced(steps, _is_own(context, snapshot))]


def _is_own(context: Context, snapshot: Snapshot) -> Callable[[Step], bool]:
    def is_own(step: Step) -> bool:
        if context.project_id is not None and step.project_id == context.project_id:
            return True
        # External networks are visible to all; that packets pass them says nothing about others.
        network = snapshot.networks.get(step.resource_id) if step.resource_type == "network" else None
        return network is not None and network.external and step.kind == "external" and step.result != DROP

    return is_own


def _reduced(steps: Sequence[Step], is_own: Callable[[Step], bool]) -> Iterable[Step]:
    others: list[Step] = []
    for step in steps:
        if is_own(step):
            if others:
                yield _others(others)
            others = []
            yield _public(step)
        elif step.kind == OTHERS:
            yield step
        elif step.kind != DATAPLANE or others:
            others.append(step)
        else:
            yield _public(step)
    if others:
        yield _others(others)


def _public(step: Step) -> Step:
    """A step of the caller's own, without hosts, segments and MAC addresses, which tell whether an address is in use."""
    packet = step.packet
    if packet is not None:
        packet = msgspec.structs.replace(packet, eth_src="", eth_dst="")
    return msgspec.structs.replace(step, host="", flows=(), text=step.public or step.text, packet=packet)


def _others(steps: Sequence[Step]) -> Step:
    if any(step.result == DROP for step in steps):
        text = "It is not delivered, for a reason that lies with another project."
        return Step(kind=OTHERS, result=DROP, text=text, cause=Cause.OTHER)
    return Step(kind=OTHERS, result=PASS, text="Passes objects of another project.")


def seen_cause(steps: Sequence[Step], result: Result, context: Context, snapshot: Snapshot) -> Cause:
    """The cause as the caller may know it."""
    if context.is_admin or result.verdict is Verdict.DELIVERED:
        return result.cause
    reduced = list(_reduced(steps, _is_own(context, snapshot)))
    if result.verdict is Verdict.UNKNOWN:
        return Cause.OTHER if any(step.kind == OTHERS for step in reduced) else result.cause
    drops = [step for step in reduced if step.result == DROP]
    return Cause.OTHER if not drops or drops[-1].kind == OTHERS else result.cause


def notes(several: Iterable[Note]) -> list[Object]:
    return [{"host": note.host, "text": note.text} for note in several]


def _shown(step: Step) -> Object:
    return {
        "kind": step.kind,
        "host": step.host,
        "resource_type": step.resource_type,
        "resource_id": step.resource_id,
        "resource_name": step.resource_name,
        "result": step.result,
        "text": step.text,
        "cause": step.cause.value,
        "packet": _packet(step.packet) if step.packet is not None else None,
        "flows": list(step.flows),
    }


def _packet(packet: Packet) -> Object:
    """A packet with all its fields, except MAC addresses that the caller does not see."""
    shown = {name: getattr(packet, name) for name in packet.__struct_fields__}
    return {name: value for name, value in shown.items() if not (name.startswith("eth_") and not value)}


def summary(
    verdict: Verdict,
    cause: Cause,
    shown: Sequence[Object],
    differences: Sequence[Object] = (),
    *,
    outside: bool = False,
) -> str:
    """The answer in one sentence, from what the caller sees."""
    if verdict is Verdict.DELIVERED:
        return OUTSIDE if outside else "The packet is delivered."
    if verdict is Verdict.UNKNOWN:
        steps = (step["text"] for step in reversed(shown) if step["kind"] in _OPEN and step["result"] == INFO)
        hosts = (f"host {each['host']}: {each['text']}." for each in differences)
        why = next(itertools.chain(hosts, steps), "a host on the path does not answer.")
        return f"It is not known whether the packet is delivered: {why}"
    drop = next((step["text"] for step in reversed(shown) if step["result"] == DROP), f"{cause.value}.")
    return f"The packet is dropped: {drop}"
