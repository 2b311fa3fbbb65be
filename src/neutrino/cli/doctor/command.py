"""`neutrino doctor`: checks of this machine as a server or a host, each finding with its meaning and its fix.

Exit status: 0 no findings (notes do not count), 1 findings, 2 wrong arguments.
"""

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence

import msgspec

from neutrino.cli import preflight
from neutrino.cli.doctor.checks import CHECKS, Check
from neutrino.cli.doctor.run import Result, run_all
from neutrino.cli.doctor.subject import HOST, SERVER, Subject, subjects
from neutrino.cli.errors import INVALID, CommandError, flush_output
from neutrino.cli.installed import AGENT_FILE, SERVER_FILE
from neutrino.cli.tables import printable, table
from neutrino.diagnosis.machine_problems import CHECK_TIMED_OUT
from neutrino.diagnosis.problems import NOTE, SEVERITIES, Finding

_CLEAR = "\r\x1b[K"
_SHOWN = ("kind", "severity", "what", "meaning", "fix")


def doctor(args: argparse.Namespace) -> int:
    if args.list:
        rows = [(check.name, ", ".join(check.applies_to), check.text) for check in CHECKS]
        print("\n".join(table(("CHECK", "OF", "LOOKS AT"), rows)))
        return 0
    chosen = _chosen(args.only)
    preflight.check_files(args.config_file)
    role = SERVER if args.server else (HOST if args.host else "")
    examined = subjects(args.config_file, role)
    if not examined:
        paths = {"": f"{SERVER_FILE} or {AGENT_FILE}", SERVER: SERVER_FILE, HOST: AGENT_FILE}[role]
        raise CommandError(f"there is no {paths}: give the configuration with --config-file", INVALID)
    for path in (path for subject in examined for path in subject.files):
        if not os.access(path, os.R_OK):
            raise CommandError(f"this user cannot read {path}: run neutrino doctor as root", INVALID)
    is_shown = sys.stderr.isatty() and not args.json
    results = run_all(examined, chosen, _progress if is_shown else lambda subject, check: None)
    if is_shown:
        print(_CLEAR, end="", file=sys.stderr, flush=True)
    findings = [finding for result in results for finding in result.findings if finding.severity != NOTE]
    print(as_json(results) if args.json else "\n".join(render(results, _width())))
    status = flush_output() or (1 if findings else 0)
    if any(finding.kind == CHECK_TIMED_OUT.id for finding in findings):
        os._exit(status)  # a thread that hangs would keep the interpreter from ending
    return status


def _chosen(names: str | None) -> Sequence[Check]:
    if not names:
        return CHECKS
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {check.name for check in CHECKS}
    if unknown := [name for name in wanted if name not in known]:
        raise CommandError(f"--only: there is no check {unknown[0]}; --list lists them", INVALID)
    return [check for check in CHECKS if check.name in wanted]


def _progress(subject: Subject, check: Check) -> None:
    text = f"{subject.role}: {check.name}: {check.text} …"
    print(f"{_CLEAR}{text[: shutil.get_terminal_size().columns - 1]}", end="", file=sys.stderr, flush=True)


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def render(results: Sequence[Result], width: int) -> list[str]:
    lines = []
    pairs = [(result, finding) for result in results for finding in result.findings]
    for severity in SEVERITIES:
        for result, finding in pairs:
            if finding.severity == severity:
                lines += [*_finding(result, finding, width), ""]
    for result in results:
        if result.skipped:
            lines.append(f"{result.subject}: {result.check} was not checked: {result.skipped}")
    return [printable(line) for line in [*lines, _summary(results)]]


def _finding(result: Result, finding: Finding, width: int) -> list[str]:
    texts = (f"{finding.severity.upper()} {finding.what}", finding.meaning, f"Fix: {finding.fix}")
    lines = []
    for number, text in enumerate(texts):
        indent = "  " if number else ""
        lines += textwrap.wrap(text, max(width, 20), initial_indent=indent, subsequent_indent="    ")
    lines[-1] += f"  [{result.check}]" if len(lines[-1]) + len(result.check) + 4 <= width else ""
    return lines


def _summary(results: Sequence[Result]) -> str:
    severities = [finding.severity for result in results for finding in result.findings]
    ran = [f"{result.subject} {result.check}" for result in results if not result.skipped]
    roles = " and ".join(dict.fromkeys(result.subject for result in results))
    if set(severities) <= {NOTE}:
        notes = f", {len(severities)} notes" if severities else ""
        return f"{len(ran)} checks of this {roles}: no findings{notes}"
    counts = ", ".join(f"{severities.count(name)} {name}s" for name in SEVERITIES if name in severities)
    return f"{len(ran)} checks of this {roles}: {counts}"


def as_json(results: Sequence[Result]) -> str:
    checks = [
        {"subject": r.subject, "check": r.check, "skipped": r.skipped, "findings": len(r.findings)} for r in results
    ]
    findings = [
        {"subject": result.subject, "check": result.check} | {name: getattr(finding, name) for name in _SHOWN}
        for result in results
        for finding in result.findings
    ]
    return msgspec.json.format(msgspec.json.encode({"findings": findings, "checks": checks})).decode()
