"""The text of a trace: its steps in both directions, the verdict, the cause and what to do about it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from neutrino.model.objects import Values

_COLOURS = {"pass": "32", "drop": "31;1", "change": "36", "info": "2"}
_VERDICTS = {"delivered": "32;1", "dropped": "31;1", "unknown": "33;1"}
WIDTH = 6  # of the column with the result of a step


@dataclass(frozen=True)
class Style:
    colours: bool = False

    def paint(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.colours and code else text


PLAIN = Style()
_NO_NAMES: Mapping[str, str] = MappingProxyType({})


def render(trace: Values, style: Style = PLAIN, *, flows: bool = False, names: Mapping[str, str] = _NO_NAMES) -> str:
    """`names`: of ports that the request names, by id; they may not be on the path."""
    lines = [_title(trace, names), ""]
    lines += _steps(trace.get("steps") or (), style, flows)
    if trace.get("return_verdict"):
        lines += ["", "reply:", *_steps(trace.get("return_steps") or (), style, flows)]
    lines += ["", *_verdict(trace, style)]
    lines += _listed("drift: hosts differ from the desired state", trace.get("drift"), style)
    lines += _listed("lag: changes that hosts have not applied yet", trace.get("lag"), style)
    lines += _listed("differences between the server's data and the dataplane", trace.get("differences"), style)
    lines += _hosts(trace.get("hosts"))
    return "\n".join(map(printable, lines)) if not style.colours else "\n".join(lines)


def printable(text: object) -> str:
    """Replace control characters: names are chosen by users, and could move the cursor of a terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def _title(trace: Values, given: Mapping[str, str]) -> str:
    names = dict(_names(trace)) | dict(given.items())
    source, destination = trace.get("source_port_id") or trace.get("source"), trace.get("destination_port_id")
    source = names.get(source, source) or "?"
    address = f" ({trace['source_address']})" if trace.get("source_address") else ""
    target = trace.get("destination_address") or ""
    to = f" ({target})" if target and destination else ""
    destination = names.get(destination, destination) or target
    port = f" port {trace['destination_port']}" if trace.get("destination_port") is not None else ""
    return printable(f"{trace.get('protocol') or 'ip'} from {source}{address} to {destination}{to}{port}")


def _names(trace: Values) -> Mapping[object, str]:
    """Return the names of the objects on the path, by id."""
    steps = [*(trace.get("steps") or ()), *(trace.get("return_steps") or ())]
    return {step["resource_id"]: step["resource_name"] for step in steps if step.get("resource_name")}


def _steps(steps: Sequence[Values], style: Style, flows: bool) -> list[str]:
    lines, host = [], None
    shows_hosts = any(step.get("host") for step in steps)  # members do not see them
    for step in steps:
        if shows_hosts and (step.get("host") or "") != host:
            host = step.get("host") or ""
            lines.append(f" on {printable(host)}" if host else " between hosts")
        result = str(step.get("result") or "")
        word = style.paint(printable(result).ljust(WIDTH), _COLOURS.get(result, ""))
        lines.append(f"  {word} {printable(step.get('kind'))}{_object(step)}: {printable(step.get('text'))}")
        if flows:
            lines += [f"         {style.paint(printable(flow), '2')}" for flow in step.get("flows") or ()]
    return lines


def _object(step: Values) -> str:
    name = step.get("resource_name") or step.get("resource_id")
    if not name:
        return ""
    return printable(f" [{str(step.get('resource_type') or '').replace('_', ' ')} {name}]")


def _verdict(trace: Values, style: Style) -> list[str]:
    lines = [_sentence("verdict", trace["verdict"], trace.get("cause"), style)]
    if trace.get("summary"):
        lines.append(f"  {printable(trace['summary'])}")
    if trace.get("return_verdict"):
        lines.append(_sentence("reply", trace["return_verdict"], trace.get("return_cause"), style))
    return lines + [f"  to do: {printable(fix)}" for fix in (trace.get("fixes") or {}).values()]


def _sentence(label: str, verdict: str, cause: str | None, style: Style) -> str:
    word = style.paint(printable(verdict), _VERDICTS.get(verdict, ""))
    return f"{label}: {word}{f' ({printable(cause)})' if cause else ''}"


def _listed(title: str, entries: Sequence[object] | None, style: Style) -> list[str]:
    if not entries:
        return []
    return ["", style.paint(title, "33"), *(f"  {_words(entry)}" for entry in entries)]


def _words(entry: object) -> str:
    if isinstance(entry, Mapping) and entry.keys() == {"host", "text"}:
        return printable(f"{entry['host']}: {entry['text']}")
    if isinstance(entry, Mapping):
        parts = [f"{key}: {_words(value)}" for key, value in entry.items() if value not in (None, "", [], {})]
        return ", ".join(parts)
    if isinstance(entry, list | tuple):
        return "; ".join(map(_words, entry))
    return printable(entry)


def _hosts(hosts: Values | None) -> list[str]:
    """List hosts that gave no answer."""
    silent = [(name, host) for name, host in (hosts or {}).items() if isinstance(host, Mapping) and host.get("error")]
    if not silent:
        return []
    return ["", "hosts without an answer", *(f"  {printable(n)}: {printable(h['error'])}" for n, h in silent)]
