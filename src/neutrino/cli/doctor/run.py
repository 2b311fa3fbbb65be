"""Runs checks: each in a thread with a time limit; one that fails or hangs is a finding of its own."""

import os
import pkgutil
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from neutrino.cli.doctor.accounts import wrong_user
from neutrino.cli.doctor.checks import CONFIGURATION, Check
from neutrino.cli.doctor.subject import Subject
from neutrino.cli.errors import DEBUG, one_line
from neutrino.diagnosis.machine_problems import CHECK_FAILED, CHECK_TIMED_OUT, CONFIGURATION_INVALID, OTHER_USER
from neutrino.diagnosis.problems import Finding


@dataclass(frozen=True, slots=True)
class Result:
    subject: str  # server or host
    check: str
    findings: tuple[Finding, ...]
    skipped: str = ""  # why it did not run


Progress = Callable[[Subject, Check], None]


def run_all(
    subjects: Sequence[Subject], checks: Iterable[Check], progress: Progress = lambda subject, check: None
) -> list[Result]:
    results, chosen = [], tuple(checks)
    for subject in subjects:
        invalid, other_user, is_stated = "", wrong_user(subject), False
        for check in chosen:
            if subject.role not in check.applies_to:
                continue
            if invalid:
                results.append(Result(subject.role, check.name, (), invalid))
                continue
            if other_user and check.needs_files:
                finding = () if is_stated else (OTHER_USER(other_user),)
                results.append(Result(subject.role, check.name, finding, "this user cannot read the server's files"))
                is_stated = True
                continue
            progress(subject, check)
            findings = run(check, subject)
            results.append(Result(subject.role, check.name, findings))
            if check == CONFIGURATION and CONFIGURATION_INVALID.id in {finding.kind for finding in findings}:
                invalid = "the configuration is invalid"
    return results


def run(check: Check, subject: Subject) -> tuple[Finding, ...]:
    """Run one check; return its findings, if it does not end in time those so far."""
    findings: list[Finding] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            for finding in pkgutil.resolve_name(check.function)(subject):
                findings.append(finding)
        except BaseException as error:  # SystemExit too: whatever ends the check is a finding
            failure.append(error)

    thread = threading.Thread(target=work, daemon=True, name=check.name)
    thread.start()
    thread.join(check.seconds)
    if thread.is_alive():
        return (*findings, CHECK_TIMED_OUT(f"check {check.name} did not end within {check.seconds:g} s"))
    if failure:
        if os.environ.get(DEBUG):
            traceback.print_exception(failure[0])
        reason = f"{type(failure[0]).__name__}: {one_line(failure[0])}"
        return (*findings, CHECK_FAILED(f"check {check.name} failed: {reason}"))
    return tuple(findings)
