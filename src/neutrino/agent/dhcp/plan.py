"""What a network's dnsmasq needs: nothing, a signal to read its files again, or a new start. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

from neutrino.agent.dhcp import command
from neutrino.agent.dhcp.hosts_files import addn_hosts_lines, host_lines
from neutrino.agent.dhcp.lines import left_out, render_lines
from neutrino.agent.dhcp.options_file import opts_lines
from neutrino.agent.dhcp.served import Served
from neutrino.agent.dhcp.settings import Settings

RELOADED = (command.HOST, command.ADDN_HOSTS, command.OPTS)  # what dnsmasq reads again at a signal


class Action(Enum):
    NOTHING = "nothing"
    RELOAD = "reload"
    RESTART = "restart"  # or a first start


@dataclass(frozen=True)
class Service:
    """A dnsmasq as it should be: its command, and its files by name."""

    command: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    left_out: tuple[str, ...] = ()
    """Lines that dnsmasq may not have, and why."""


@dataclass(frozen=True)
class ServicePlan:
    action: Action = Action.NOTHING
    write: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    reason: str = ""

    def __bool__(self) -> bool:
        return self.action is not Action.NOTHING or bool(self.write)


def render_service(this: Served, settings: Settings, device: str, addresses: Iterable[str]) -> Service:
    """`addresses`: those on the device. dnsmasq listens on those that are there when it starts, and on no others."""
    files = {
        command.HOST: host_lines(this, settings),
        command.ADDN_HOSTS: addn_hosts_lines(this, settings),
        command.OPTS: opts_lines(this, settings),
    }
    return Service(
        command.render_command(this, settings, device),
        {
            **{name: render_lines(lines) for name, lines in files.items()},
            command.INTERFACE: device,
            command.BOUND: "".join(f"{address}\n" for address in sorted(addresses)),
        },
        tuple(text for name, lines in files.items() for text in left_out(name, lines)),
    )


def plan_service(wanted: Service, running: tuple[str, ...] | None, files: Mapping[str, str]) -> ServicePlan:
    """`running`: the command of the process that is there; `files`: what is on disk."""
    write = {name: text for name, text in wanted.files.items() if files.get(name) != text}
    reason = _restart_reason(wanted, running, write)
    if reason:
        return ServicePlan(Action.RESTART, write, reason)
    changed = [name for name in RELOADED if name in write]
    if changed:
        return ServicePlan(Action.RELOAD, write, f"changed: {', '.join(changed)}")
    return ServicePlan(Action.NOTHING, write)


def keeping_files(plan: ServicePlan, files: Mapping[str, str]) -> ServicePlan:
    """The plan of an agent that has not synced: files that name ports may be newer than its cache, and stay."""
    write = {name: text for name, text in plan.write.items() if name not in RELOADED or name not in files}
    return replace(plan, write=write)


def _restart_reason(wanted: Service, running: tuple[str, ...] | None, write: Mapping[str, str]) -> str:
    if running is None:
        return "it is not running"
    if running != wanted.command:
        return "its command is another"
    if command.BOUND in write:
        return "its addresses are others"
    return ""
