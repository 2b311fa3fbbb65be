"""Neutron's options as its sample configuration files have them (neutron_options.txt), and ours by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_log import log

from neutrino.agent import config as agent
from neutrino.configuration.options import DEFAULT, Option
from neutrino.server import config as server

DATA = Path(__file__).with_name("neutron_options.txt")
SERVER_FILES = ("neutron.conf", "ml2_conf.ini")
AGENT_FILES = (
    *("neutron.conf", "openvswitch_agent.ini", "dhcp_agent.ini", "l3_agent.ini", "metadata_agent.ini"),
    "sriov_agent.ini",
)


@dataclass(frozen=True)
class NeutronOption:
    section: str
    name: str
    kind: str
    default: str | None  # as in a file; None: there is none
    files: tuple[str, ...]


@cache
def neutron_options() -> dict[Option, NeutronOption]:
    found, files = {}, ()
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("in "):
            files = tuple(line.split()[1:])
            continue
        section, name, kind, default = line.split(" ", 3)
        text = {"-": None, '""': ""}.get(default, default)
        found[section, name] = NeutronOption(section, name, kind, text, files)
    return found


def sample(file: str) -> str:
    """A configuration file with all options of one of Neutron's sample files, set to their defaults."""
    sections: dict[str, list[str]] = {}
    for option in neutron_options().values():
        lines = sections.setdefault(option.section, []) if file in option.files else []
        if option.default is not None and option.kind != "Computed":
            lines.append(f"{option.name} = {option.default}")
    return "".join(f"[{section}]\n" + "\n".join(lines) + "\n\n" for section, lines in sections.items())


def write_samples(directory: Path, files: Sequence[str]) -> list[str]:
    for file in files:
        (directory / file).write_text(sample(file))
    return [str(directory / file) for file in files]


def our_options() -> Iterator[tuple[str, str | None, Any]]:
    """Our options as (program, group, option)."""
    for group, options in server.OPTIONS.items():
        yield from (("server", group, option) for option in options)
    for group, options in agent.GROUPS:
        yield from (("agent", group, option) for option in options)


@cache
def ours_by_name() -> dict[Option, dict[str, Any]]:
    """Our options: program → option, by section and name."""
    found: dict[Option, dict[str, Any]] = {}
    for program, group, option in our_options():
        found.setdefault((group or DEFAULT, option.dest), {})[program] = option
    return found


@cache
def library_options() -> frozenset[Option]:
    """Options that libraries register: logging in both programs, the others in a server with these services."""
    from keystoneauth1 import loading
    from keystonemiddleware import auth_token
    from oslo_middleware import opts as middleware
    from oslo_policy import opts as policy

    conf = cfg.ConfigOpts()
    log.register_options(conf)
    found = {(DEFAULT, name) for name in conf}
    groups = [*auth_token.list_opts(), *middleware.list_opts(), *policy.list_opts()]
    for section in ("nova", "designate", "placement", "ironic", "keystone_authtoken"):
        groups.append((section, [*loading.get_auth_common_conf_options(), *loading.get_session_conf_options()]))
        groups.append((section, loading.get_auth_plugin_conf_options("password")))
    for group, options in groups:
        for option in options:
            names = [option.dest, *(former.name.replace("-", "_") for former in option.deprecated_opts if former.name)]
            found |= {(group, name) for name in names}
    return frozenset(found)


def as_in_file(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}:{each}" for key, each in value.items())
    return str(value)
