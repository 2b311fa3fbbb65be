"""`neutrino config sample`: a configuration file with all options, their help and defaults, each commented out.

The Debian packages install it as /etc/neutrino/server.conf and agent.conf, with the few values set that `Set` names.
"""

import argparse
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from oslo_config import cfg

from neutrino import entry_points

WIDTH = 110
NONE = "<none>"
HEADS = {
    "server": "Configuration of neutrino's server: `neutrino server`, `neutrino feed`, `neutrino db`, `neutrino host`.",
    "agent": "Configuration of neutrino's host agent: `neutrino agent`.",
}
HEAD = """{head}
Options have the names and sections of Neutron. Commented values are the defaults."""
Groups = Mapping[str, Sequence[cfg.Opt]]  # options by section


@dataclass(frozen=True)
class Set:
    """A value other than the default, with the reason."""

    value: str
    why: str


def config(args: argparse.Namespace) -> None:
    print(render(args.program), end="")


def render(program: str, values: Mapping[tuple[str, str], Set] | None = None) -> str:
    """The file for "server" or "agent", with `values` by section and name."""
    groups, left = OPTIONS[program](), dict(values or {})
    lines = [*_comment(HEAD.format(head=HEADS[program])), ""]
    for section, options in groups.items():
        lines += [f"[{section}]", ""]
        for option in options:
            lines += [*_option(option, left.pop((section, option.dest), None)), ""]
    if left:
        raise ValueError(f"there are no such options: {sorted(left)}")
    return "\n".join(lines).rstrip("\n") + "\n"


# --- all options of a program -----------------------------------------------------------------------------------------


def server_options() -> Groups:
    """Ours, and those of the libraries that the server uses: logging, policy, middleware, Keystone, Nova."""
    from keystoneauth1 import loading
    from keystonemiddleware import opts as keystonemiddleware
    from oslo_middleware import opts as middleware
    from oslo_policy import opts as policy

    from neutrino.server.config import OPTIONS as ours
    from neutrino.server.config import configuration

    configuration([])  # sets defaults of oslo.log's options
    session = loading.get_session_conf_options()
    password = loading.get_auth_plugin_conf_options("v3password")
    auth = [*loading.get_auth_common_conf_options(), *password]
    read = {"cors"}  # of oslo.middleware; two more are among ours
    sections = [
        *ours.items(),
        (None, _logging()),
        *policy.list_opts(),
        *((_name(group), options) for group, options in middleware.list_opts() if _name(group) in read),
        *((_name(group), options) for group, options in keystonemiddleware.list_auth_token_opts()),
        ("keystone_authtoken", password),
        ("nova", [*session, *auth]),
    ]
    return _merged((str(_name(group) or "DEFAULT"), options) for group, options in sections)


def agent_options() -> Groups:
    from neutrino.agent.config import GROUPS as ours

    return _merged((group or "DEFAULT", options) for group, options in (*ours, (None, _logging())))


OPTIONS = {"server": server_options, "agent": agent_options}


def _logging() -> list[cfg.Opt]:
    (library,) = entry_points.of_group("oslo.config.opts").select(name="oslo.log")
    return [option for _, options in library.load()() for option in options]


def _name(group: cfg.OptGroup | str | None) -> str | None:
    return group.name if isinstance(group, cfg.OptGroup) else group


def _merged(sections: Iterable[tuple[str, Iterable[cfg.Opt]]]) -> Groups:
    """One entry per section; an option that two libraries register is listed once."""
    found: dict[str, dict[str, cfg.Opt]] = {}
    for section, options in sections:
        listed = found.setdefault(section, {})
        for option in options:
            if not option.deprecated_for_removal:
                listed.setdefault(option.dest, option)
    return {section: list(options.values()) for section, options in found.items() if options}


# --- text -------------------------------------------------------------------------------------------------------------


def _option(option: cfg.Opt, given: Set | None) -> Iterator[str]:
    yield from _comment(" ".join((option.help or "").split()))
    facts = list(_facts(option))
    if facts:
        yield from _comment(f"({'; '.join(facts)})")
    default = option.sample_default if option.sample_default is not None else option.default
    for text in _texts(default, option.multi):
        yield f"#{option.dest} = {text}".rstrip()
    if given is not None:
        yield from _comment(f"Set by the package: {given.why}")
        yield f"{option.dest} = {given.value}"


def _facts(option: cfg.Opt) -> Iterator[str]:
    kind = option.type
    yield getattr(kind, "type_name", "value").removesuffix(" value")
    choices = getattr(kind, "choices", None)
    if choices:
        yield "one of " + ", ".join(as_text(choice) or "''" for choice in choices)
    for word, bound in (("minimum", getattr(kind, "min", None)), ("maximum", getattr(kind, "max", None))):
        if bound is not None:
            yield f"{word} {bound}"
    if option.multi:
        yield "repeatable"
    former = [
        f"[{deprecated_opt.group or 'DEFAULT'}] {deprecated_opt.name or option.dest}"
        for deprecated_opt in option.deprecated_opts
    ]
    if former:
        yield "formerly " + ", ".join(former)


def _texts(default: object, repeatable: bool) -> list[str]:
    """The default as in a file; one line each for a repeatable option."""
    if repeatable and isinstance(default, list | tuple):
        return [as_text(each) for each in default] or [""]
    return [as_text(default)]


def as_text(value: object) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(as_text, value))
    if isinstance(value, dict):
        return ",".join(f"{key}:{as_text(each)}" for key, each in value.items())
    text = str(value)
    return f'"{text}"' if text != text.strip() else text  # oslo.config strips both spaces and quotes


def _comment(text: str) -> list[str]:
    return [f"# {line}" for part in text.splitlines() for line in textwrap.wrap(part, WIDTH, break_on_hyphens=False)]
