"""The variants of `tests/support/every_flow.py` cover every line of the code that renders flows."""

from __future__ import annotations

import dis
import inspect
import linecache
import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from types import CodeType, FrameType
from typing import Any

import neutrino.agent.l2.extensions as package
from neutrino import caches
from neutrino.agent.l2.pipeline import TABLES, Bridge
from neutrino.agent.l2.plan import Renderer
from neutrino.dataplane.openflow.api import DatapathFeatures
from tests.support.every_flow import hosts

MODULES = [import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)]


def functions(code: CodeType, *, inside: bool = False) -> Iterator[CodeType]:
    """The code of all functions in a module's code; the bodies of classes run when the module is imported."""
    if code.co_name == "statuses":  # reported to the server: it renders nothing
        return
    if inside and code.co_flags & inspect.CO_OPTIMIZED:
        yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from functions(constant, inside=True)


def lines_of_flows() -> set[tuple[str, int]]:
    found = set()
    for module in MODULES:
        name = inspect.getsourcefile(module)
        assert name is not None
        for code in functions(compile(inspect.getsource(module), name, "exec")):
            found |= {(name, line) for _, line in dis.findlinestarts(code) if line and line != code.co_firstlineno}
    return found


def makes_flows(name: str, line: int) -> bool:
    """Not a line that only leaves a function or a loop, or refuses an object."""
    text = linecache.getline(name, line).strip()
    leaves = ("continue", "return []", "return Contribution()", "raise ", "LOG.")
    return not (text == "return" or text.startswith(leaves))


def test_every_line_of_the_renderers_is_used_by_a_variant() -> None:
    wanted, files, seen = lines_of_flows(), {name for name, _ in lines_of_flows()}, set()
    rendered = [host for features in (True, False) for host in hosts(DatapathFeatures(features)).values()]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        seen.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    caches.clear()  # functions with results of `hosts` would not run
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for host in rendered:
            assert host.desired is not None
            Renderer(host.extensions).render(host.desired)
            for extension in host.extensions:  # called by the reconciler, not by the renderer
                extension.deciding_owners(host.desired)
    finally:
        sys.settrace(before)
    missing = sorted(f"{place[0].rpartition('/')[2]}:{place[1]}" for place in wanted - seen if makes_flows(*place))
    assert not missing


def test_every_table_has_flows_of_its_own() -> None:
    kinds = {"br-int": Bridge.INTEGRATION, "br-tun": Bridge.TUNNEL, "br-phys": Bridge.PHYSICAL}
    used = set()
    for host in hosts(DatapathFeatures()).values():
        for name, bridge in host.switch.bridges.items():
            used |= {(kinds[name], flow.table) for flow in bridge.tables.flows.values() if flow.priority}
    idle = {table.name for table in TABLES if (table.bridge, table.number) not in used}
    assert idle == {"CANARY", "LEARNED", "DELIVERY"}
