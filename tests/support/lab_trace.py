"""Traces in a lab, compared with the fate of real packets.

A case changes something, waits until real packets have the fate that it expects, traces the same packet, and compares
verdict, cause and the object that is named.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

from neutrino.cli.trace.command import exit_status
from neutrino.cli.trace.render import render
from neutrino.lab.api_client import Object
from neutrino.lab.errors import LabError
from neutrino.lab.timing import Deadline
from neutrino.model.trace import Cause
from tests.support.lab_control import Lab
from tests.support.lab_guests import Guest

SOON = 30.0  # seconds within which a change takes effect, on a busy machine
LOST_AFTER = 0.4
S = TypeVar("S")


@dataclasses.dataclass(frozen=True)
class Case(Generic[S]):
    name: str
    trace: Callable[[S], Mapping[str, Any]]  # the request
    arrives: Callable[[S], bool]  # of a real packet, with its reply where it has one
    cause: str = ""  # why it does not arrive; none: it does
    object: Callable[[S], str] | None = None  # the id that the step which drops it names
    change: Callable[[S], AbstractContextManager[Any]] = lambda site: contextlib.nullcontext()
    back: bool = False  # it is the reply that is dropped
    one_way: bool = False  # the packet has no reply
    agrees: bool = True  # the server's data and the dataplane have the same answer
    verdict: str = ""  # unless it follows from the cause


def check(lab: Lab, case: Case[S], site: S) -> Object:
    """The trace of a case, after it was compared."""
    with case.change(site):
        wanted = not case.cause
        arrived = _wait_for(lambda: case.arrives(site), wanted)
        assert arrived == wanted, f"a real packet {'arrives' if arrived else 'does not arrive'}"
        deadline = Deadline(SOON)
        attempts = 0
        while True:
            attempts += 1
            found = trace_once(lab, **case.trace(site))
            fault = _fault(case, site, found)
            if not fault:
                # Again: the packet may have arrived before the change took effect.
                assert _wait_for(lambda: case.arrives(site), wanted) == wanted, "real packets have another fate now"
                return found
            # A trace of a busy lab may take all of the time.
            if attempts > 1 and deadline.has_passed():
                raise AssertionError(f"{fault}\n{render(found, flows=True)}\n{found}")


def trace(lab: Lab, **values: Any) -> Object:
    """A trace to which all hosts have answered: on a busy machine, an answer may be late."""
    deadline = Deadline(SOON)
    while True:
        made = trace_once(lab, **values)
        if Cause.HOST_TIMEOUT.value not in (made["cause"], made["return_cause"]) or deadline.has_passed():
            return made


def trace_once(lab: Lab, **values: Any) -> Object:
    made: Object = lab.api.request("POST", "/v2.0/traces", {"trace": {"flows": True, **values}})["trace"]
    return made


def check_arrives(lab: Lab, **values: Any) -> Object:
    """Trace a packet of which real ones arrive and are answered: the server's data and the hosts must say the same."""
    made = trace(lab, **values)
    found = made["verdict"], made["return_verdict"], made["agreement"]
    assert found == ("delivered", "delivered", True), f"{render(made, flows=True)}\n{made}"
    return made


def _wait_for(look: Callable[[], bool], wanted: bool) -> bool:
    deadline = Deadline(SOON)
    while (found := look()) != wanted and not deadline.has_passed():
        time.sleep(0.05)
    return found


def _fault(case: Case[S], site: S, found: Object) -> str:
    """What is wrong with a trace; empty if it is as the case expects."""
    verdict = case.verdict or ("dropped" if case.cause else "delivered")
    if not case.verdict and not case.one_way and exit_status(found) != (1 if case.cause else 0):
        return f"exit status {exit_status(found)} for a packet that is {verdict}"
    if case.back:
        if (found["verdict"], found["return_verdict"]) != ("delivered", verdict):
            return f"verdicts {found['verdict']} and {found['return_verdict']}, expected a reply that is {verdict}"
        if found["return_cause"] != case.cause:
            return f"cause {found['return_cause']} of the reply, expected {case.cause}"
    else:
        if found["verdict"] != verdict:
            return f"verdict {found['verdict']} ({found['cause']}), expected {verdict} ({case.cause})"
        if (found["cause"] or "") != case.cause:
            return f"cause {found['cause']}, expected {case.cause}"
    if case.object is not None:
        steps = found["return_steps" if case.back else "steps"]
        named = [step["resource_id"] for step in steps if step["result"] == "drop" or case.verdict]
        if case.object(site) not in named:
            return f"the object {case.object(site)} is not named by what drops the packet: {named}"
    asked = any(host["answered"] for host in found["hosts"].values())
    if found["agreement"] is not (case.agrees if asked else None):
        return f"agreement is {found['agreement']}: {found['differences']}"
    return ""


# --- real packets -----------------------------------------------------------------------------------------------------


def pings(lab: Lab, source: str, target: str, *options: str) -> bool:
    argv = ["ping", "-n", "-q", "-c", "1", "-W", str(LOST_AFTER), *options, target]
    return lab.run(source, argv, check=False).returncode == 0


def connects(lab: Lab, client: str, server: str, target: str, port: int = 80, at: int | None = None) -> bool:
    """Whether a TCP connection to `target` reaches `server`, there at port `at` (else the same)."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET

    def listen() -> socket.socket:
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", at or port))
        listener.listen()
        return listener

    with lab.inside(server, listen) as listener:
        listener.settimeout(LOST_AFTER)
        try:
            with lab.inside(client, lambda: socket.create_connection((target, port), LOST_AFTER)):
                listener.accept()[0].close()
        except OSError:
            return False
    return True


def datagrams(lab: Lab, client: str, server: str, target: str, port: int, source_port: int = 0) -> bool:
    """Whether a datagram and its reply arrive."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET

    def bound(number: int) -> socket.socket:
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("", number))
        made.settimeout(LOST_AFTER)
        return made

    with lab.inside(server, lambda: bound(port)) as there, lab.inside(client, lambda: bound(source_port)) as here:
        try:
            here.sendto(b"question", (target, port))
            _, peer = there.recvfrom(100)
            there.sendto(b"answer", peer)
            here.recvfrom(100)
        except OSError:
            return False
    return True


# --- changes that are undone --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def updated(lab: Lab, kind: str, key: str, **values: Any) -> Iterator[None]:
    before = lab.api.show(kind, key)
    lab.api.update(kind, key, **values)
    try:
        yield
    finally:
        lab.api.update(kind, key, **{name: before[name] for name in values})


@contextlib.contextmanager
def in_groups(guest: Guest, *groups: str) -> Iterator[None]:
    with updated(guest.lab, "port", guest.port_id, security_groups=list(groups)):
        yield


@contextlib.contextmanager
def created(lab: Lab, path: str, kind: str, **values: Any) -> Iterator[Object]:
    """An object of a collection with a path of its own, such as fwaas/firewall_groups."""
    made: Object = lab.api.request("POST", f"/v2.0/{path}", {kind: values})[kind]
    try:
        yield made
    finally:
        with contextlib.suppress(LabError):
            lab.api.request("DELETE", f"/v2.0/{path}/{made['id']}")
