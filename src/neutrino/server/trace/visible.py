"""What a caller sees of a trace: the response of the API; for members, without details of other projects. Pure.

An administrator sees everything. A member sees the steps of its own project's objects, without hosts. Consecutive steps
that concern other projects are one step, the same whatever they are: "no port has the address", "the port's security group
drops it", "the port is down" and "its host does not answer" cannot be told apart, because each would disclose what another
project has. That the packet arrives, and its answer returns, is shown: a real packet would show it too.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence

import msgspec

from neutrino.model.objects import Object
from neutrino.model.trace import Cause, Observation, Packet, Verdict
from neutrino.server.context import Context
from neutrino.server.trace.collect import Collected
from neutrino.server.trace.compare import DATAPLANE, Note, Result
from neutrino.server.trace.steps.walk import contains, same
from neutrino.server.trace.values import DROP, INFO, PASS, Path, Snapshot, Step, TracedPort

OTHERS = "other-project"
# Kinds of steps that leave the verdict open.
_OPEN = ("host", "next-hop", "physical-network", "unlisted-address", "route-back", "beyond", OTHERS)
OUTSIDE = "The packet leaves to the outside, by an external network."
NOT_DELIVERED = "It is not delivered, for a reason that lies with another project."
FORGED = "What other projects' objects do with a source that is not the sender's is not shown."


def for_caller(path: Path, answer: Path | None, sender: str, context: Context, snapshot: Snapshot) -> Path:
    """The path as the caller may know it, by the server's data. If it is another than the given one, no host is asked:
    the hosts' answers, and the time that they take, would tell what others have.

    A packet that another project's object gets must have an answer that returns to the sender's project: otherwise the
    verdict would tell what no real packet tells, such as which sources the rules of another project allow.
    """
    if context.is_admin:
        return path
    known = without_forged(path, sender, context, snapshot)
    if known is path:
        known = without_others(path, context, snapshot)
    if known is path and ends_at_others(path, context, snapshot):
        return path if _returns(path, answer, sender, context, snapshot) else not_delivered(path, context, snapshot)
    return known


def without_others(path: Path, context: Context, snapshot: Snapshot) -> Path:
    """End a path, for members, where another project's object drops the packet or leaves it open, always alike."""
    is_own = _is_own(context, snapshot)
    for number, step in enumerate(path.steps):
        if not context.is_admin and not is_own(step) and (step.result == DROP or _is_doubt(step, snapshot)):
            return not_delivered(path, context, snapshot, number)
    return path


def not_delivered(path: Path, context: Context, snapshot: Snapshot, number: int | None = None) -> Path:
    """The path up to the caller's last own object before a step, and then dropped by another project's."""
    is_own = _is_own(context, snapshot)
    kept = list(path.steps[:number])
    while kept and not is_own(kept[-1]):
        kept.pop()
    end = Step(kind=OTHERS, result=DROP, text=NOT_DELIVERED, cause=Cause.OTHER)
    return Path(steps=(*kept, end), verdict=Verdict.DROPPED, cause=Cause.OTHER, packet=path.packet)


def ends_at_others(path: Path, context: Context, snapshot: Snapshot) -> bool:
    """Whether a member's packet arrives at an object of another project, as far as the server knows."""
    if context.is_admin or path.verdict is Verdict.DROPPED or path.end_network_id or not path.steps:
        return False
    return not _is_own(context, snapshot)(path.steps[-1])


def fails_at_others(path: Path, result: Result, collected: Collected, context: Context, snapshot: Snapshot) -> bool:
    """Whether a member must not see how its packet ends by the hosts' answers: it does not arrive at another project's
    object, or only hosts without an object of the member on the path do not answer."""
    if context.is_admin or result.verdict is Verdict.DELIVERED:
        return False
    if ends_at_others(path, context, snapshot):
        return True
    is_own = _is_own(context, snapshot)
    hosts = {step.host for step in path.steps if is_own(step)}
    failed = {asked.host for asked in collected.asked if asked.answer is None}
    only_others = bool(failed) and not failed & hosts
    return result.verdict is Verdict.UNKNOWN and only_others and not all_own(path, context, snapshot)


def all_own(path: Path, context: Context, snapshot: Snapshot) -> bool:
    return context.is_admin or all(map(_is_own(context, snapshot), path.steps))


def _is_doubt(step: Step, snapshot: Snapshot) -> bool:
    """Whether a step leaves the verdict open. The gateway of a subnet is no secret: that only a machine outside may have
    its address is shown, since most networks of providers have such a gateway."""
    if step.kind not in _OPEN or step.result != INFO:
        return False
    if step.kind != "physical-network":
        return True
    network = snapshot.networks.get(step.resource_id)
    destination = step.packet.destination if step.packet is not None else ""
    return network is not None and not any(same(s.gateway_ip or "", destination) for s in network.subnets)


def _returns(path: Path, answer: Path | None, sender: str, context: Context, snapshot: Snapshot) -> bool:
    """Whether the answer to a packet returns to the project that has sent it."""
    port = snapshot.ports.get(sender)
    if answer is None:  # of a router itself: to a source that can only be the sender's
        first = path.steps[0].packet
        return port is None or first is None or first.source in {f.ip_address for f in port.port.fixed_ips}
    if answer.verdict is not Verdict.DELIVERED:
        return False
    end = snapshot.ports.get(answer.end_port_id)
    return port is None if end is None else end.project_id == context.project_id


def without_forged(path: Path, sender: str, context: Context, snapshot: Snapshot) -> Path:
    """For members, the path of a packet with a forged source ends before other projects' objects.

    A port without port security, or with a large address pair, sends from any source. Nobody who does so gets a reply: by
    the verdict, a member could find out which sources the rules of another project allow.
    """
    port = snapshot.ports.get(sender)
    if context.is_admin or port is None:
        return path
    first = path.steps[0].packet if path.steps else None
    if first is None or _is_senders(first.source, port, snapshot):
        return path
    is_own = _is_own(context, snapshot)
    kept = tuple(itertools.takewhile(is_own, path.steps))
    if len(kept) == len(path.steps):
        return path
    end = Step(kind=OTHERS, result=INFO, text=FORGED)
    return Path(steps=(*kept, end), verdict=Verdict.UNKNOWN, cause=Cause.OTHER, packet=first)


def _is_senders(source: str, port: TracedPort, snapshot: Snapshot) -> bool:
    """Whether a source is the port's: its own, or by an address pair another of its network's subnets."""
    if any(same(fixed.ip_address, source) for fixed in port.port.fixed_ips):
        return True
    network = snapshot.networks.get(port.port.network_id)
    on_link = network is not None and any(contains(subnet.cidr, source) for subnet in network.subnets)
    return on_link and any(contains(pair.ip_address, source) for pair in port.port.allowed_address_pairs)


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
    led = False  # an object of another project has led the packet to a port whose address it hides
    for step in steps:
        if is_own(step):
            if others:
                yield _others(others)
            led = led or any(other.hides for other in others)
            others = []
            shown = _public(step)
            yield msgspec.structs.replace(shown, packet=None) if led else shown
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
        return Step(kind=OTHERS, result=DROP, text=NOT_DELIVERED, cause=Cause.OTHER)
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
        hosts = (f"host {difference['host']}: {difference['text']}." for difference in differences)
        why = next(itertools.chain(hosts, steps), "a host on the path does not answer.")
        return f"It is not known whether the packet is delivered: {why}"
    drop = next((step["text"] for step in reversed(shown) if step["result"] == DROP), f"{cause.value}.")
    return f"The packet is dropped: {drop}"
