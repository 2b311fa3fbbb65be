"""Options in configuration files that are not read, each with the reason: nothing is ignored silently.

An option in a file is one of: registered by this program; registered by the other program (server or agent), as their files
are often given to both; one of Neutron's that has no meaning here; one that asks for something missing, which refuses the
start; or unknown, such as a typo.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oslo_config import cfg

from neutrino.configuration import neutron_options as neutron
from neutrino.configuration.neutron_values import hints, read_list
from neutrino.configuration.options import Configuration, Option
from neutrino.errors import RefusedToStart

LOG = logging.getLogger(__name__)
SERVER, AGENT = neutron.SERVER, neutron.AGENT
EXTENSIONS: Option = ("agent", "extensions")
Groups = Iterable[tuple[str | None, Iterable[cfg.Opt]]]  # options as declared, by group


@dataclass(frozen=True)
class Findings:
    """Options of the files that this program does not read, by section, with the reason of each."""

    unknown: Mapping[Option, str] = field(default_factory=dict)  # with the closest known name, or empty
    without_effect: Mapping[Option, str] = field(default_factory=dict)
    missing: Mapping[Option, str] = field(default_factory=dict)  # without effect, as their function is not here
    elsewhere: Collection[Option] = ()  # read by the other program
    overridden: Collection[Option] = ()  # lists of extensions that a later file replaces


def is_configured(conf: Configuration, section: str) -> bool:
    """Return whether files or environment have options of this section, whose library need not be loaded otherwise."""
    variables = f"OS_{section.upper()}__"  # of oslo.config
    return any(group == section for group, _ in conf.given) or any(name.startswith(variables) for name in os.environ)


def names_of(groups: Groups) -> set[Option]:
    """Return the names of options that are declared, and not registered in this process."""
    conf = Configuration()
    for group, options in groups:
        conf.register_opts(options, group=group)
    return conf.registered


def refuse(conf: Configuration, program: str) -> None:
    """Raise RefusedToStart for options that ask this program for what is not here; all of them in one message."""
    problems = []
    for (section, name), texts in conf.given.items():
        refusal = neutron.REFUSALS[program].get((section, name))
        text = texts[-1].strip()
        if refusal is not None and text.lower().replace(":", ".") not in refusal.accepted:
            problems.append(f"[{section}] {name} = {text} is refused: {refusal.reason}")
    if problems:
        raise RefusedToStart("; ".join(problems))


def compare(
    values: Mapping[Option, Sequence[str]], known: Collection[Option], other: Collection[Option], program: str
) -> Findings:
    """Sort out the options that this program does not read. `known`: its options, `other`: those of the other one. Pure."""
    unknown: dict[Option, str] = {}
    without_effect: dict[Option, str] = {}
    missing: dict[Option, str] = {}
    elsewhere = []
    refusals, of_the_other = neutron.REFUSALS[program], neutron.REFUSALS[AGENT if program == SERVER else SERVER]
    for option in values:
        section, name = option
        if option in known:
            continue
        # A refusal here has an accepted value, or the start would have been refused.
        reason = refusals[option].reason if option in refusals else neutron.reason(section, name)
        if option in other or option in of_the_other or (program == AGENT and section in neutron.LIBRARY_SECTIONS):
            elsewhere.append(option)
        elif reason is not None:
            (missing if neutron.is_missing(section, name) else without_effect)[option] = reason
        elif section in neutron.LIBRARY_SECTIONS and (section, neutron.LIBRARY_SECTIONS[section][0]) not in known:
            without_effect[option] = neutron.LIBRARY_SECTIONS[section][1]
        else:
            unknown[option] = _closest(option, known)
    # Neutron's L2 and L3 agents have different lists under this name, each in its own file.
    lists = {_extensions(text) for text in values.get(EXTENSIONS, ())} if EXTENSIONS in known else ()
    return Findings(unknown, without_effect, missing, elsewhere, [EXTENSIONS] if len(lists) > 1 else [])


def _extensions(text: str) -> tuple[str, ...]:
    """Return the extensions in a list, without those that are included anyway."""
    try:
        return read_list(*EXTENSIONS, text)
    except ValueError:  # a name that would be refused, in a file that a later one overrides
        return (text,)


def log(findings: Findings, program: str) -> None:
    """Log one line for each kind of finding."""
    if findings.unknown:
        LOG.warning("options that the %s does not know, without effect: %s", program, _by_section(findings.unknown))
    if findings.without_effect:
        LOG.warning("options of Neutron without effect here: %s", _by_section(findings.without_effect))
    if findings.missing:
        LOG.warning("options of Neutron for what is not here: %s", _by_section(findings.missing))
    if findings.elsewhere:
        reader = AGENT if program == SERVER else SERVER
        LOG.info("options that only the %s reads: %s", reader, _by_section(dict.fromkeys(findings.elsewhere, "")))
    for section, name in findings.overridden:
        LOG.warning("[%s] %s is in several files with different values; the last file is used", section, name)


def log_hints(values: Mapping[Option, Sequence[str]]) -> None:
    """Log which values of Neutron were replaced by ours."""
    replaced = [
        f"[{section}] {name}: {hint}"
        for (section, name), texts in values.items()
        for hint in hints(section, name, texts[-1])
    ]
    if replaced:
        LOG.info("values of Neutron are read as ours: %s", "; ".join(replaced))


def report(conf: Configuration, program: str, others: Callable[[], Groups] = tuple) -> None:
    """Log the findings of a program that has loaded all its drivers. `others` gives the options of the other program."""
    values, known = conf.given, conf.registered
    log_hints({option: texts for option, texts in values.items() if option in known})
    other = names_of(others()) if set(values) - known else ()  # loads the other program's modules: only if needed
    log(compare(values, known, other, program), program)


def _closest(option: Option, known: Collection[Option]) -> str:
    """Return the known option that is probably meant; empty if none is similar."""
    section, name = option
    spelled = name.replace("-", "_").lower()
    same = sorted(group for group, option_name in known if option_name == spelled)
    if same:
        return f"did you mean [{section if section in same else same[0]}] {spelled}?"
    import difflib

    names = sorted(option_name for group, option_name in known if group == section)
    closest = difflib.get_close_matches(spelled, names, n=1, cutoff=0.8)
    return f"did you mean {closest[0]}?" if closest else ""


def _by_section(options: Mapping[Option, str]) -> str:
    """Render options with their reasons: those of a section together, and in it those with the same reason."""
    sections: dict[str, dict[str, list[str]]] = {}
    for (section, name), reason in options.items():
        sections.setdefault(section, {}).setdefault(reason, []).append(name)
    texts = []
    for section, reasons in sorted(sections.items()):
        parts = [f"{', '.join(names)} ({reason})" if reason else ", ".join(names) for reason, names in reasons.items()]
        texts.append(f"[{section}] {', '.join(parts)}")
    return "; ".join(texts)
