"""The contract of external DNS drivers, for the fake one and the real ones: each case is a function of a `Subject`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from neutrino.features.dns.driver_api import DnsDriver, ForeignRecords, RecordSet, Refused, Unreachable

ZONE = "example.net."
NONE: frozenset[str] = frozenset()


@dataclass
class Subject:
    driver: DnsDriver
    look: Callable[[str, str], set[str]]  # name and type: the addresses in the DNS, found without the driver
    put: Callable[[str, str, set[str]], object]  # records of others
    stop: Callable[[], object]
    start: Callable[[], object]
    project: str = "project-1"

    def name(self, label: str, type_: str = "A", zone: str = ZONE) -> RecordSet:
        return RecordSet(self.project, zone, f"{label}.{zone}", type_)


def published_changed_and_removed(subject: Subject) -> None:
    www = subject.name("www")
    one, two, three = frozenset({"192.0.2.1"}), frozenset({"192.0.2.1", "192.0.2.2"}), frozenset({"192.0.2.3"})
    ours = NONE
    for addresses in (one, one, two, three, NONE, NONE, one, NONE):
        subject.driver.replace(www, addresses, ours)
        assert subject.look(www.name, "A") == addresses
        ours |= addresses


def types_are_independent(subject: Subject) -> None:
    four, six = subject.name("both"), subject.name("both", "AAAA")
    subject.driver.replace(four, frozenset({"192.0.2.1"}), NONE)
    subject.driver.replace(six, frozenset({"2001:db8::1"}), NONE)
    subject.driver.replace(four, NONE, frozenset({"192.0.2.1"}))
    assert (subject.look(four.name, "A"), subject.look(six.name, "AAAA")) == (set(), {"2001:db8::1"})


def repeated_after_a_lost_answer(subject: Subject) -> None:
    """The update was made, and is sent again: the publisher has marked the address as ours before."""
    lost, addresses = subject.name("lost"), frozenset({"192.0.2.8"})
    subject.driver.replace(lost, addresses, NONE)
    subject.driver.replace(lost, addresses, addresses)
    assert subject.look(lost.name, "A") == addresses


def records_of_others_are_refused(subject: Subject) -> None:
    taken = subject.name("taken")
    subject.put(taken.name, "A", {"203.0.113.1"})
    for addresses in ({"192.0.2.1"}, {"203.0.113.1"}, {"203.0.113.1", "192.0.2.1"}):
        with pytest.raises(ForeignRecords, match=r"203\.0\.113\.1"):
            subject.driver.replace(taken, frozenset(addresses), NONE)
    subject.driver.replace(taken, NONE, frozenset({"192.0.2.1"}))
    assert subject.look(taken.name, "A") == {"203.0.113.1"}


def records_of_others_next_to_ours_stay(subject: Subject) -> None:
    mixed = subject.name("mixed")
    subject.put(mixed.name, "A", {"192.0.2.1", "203.0.113.1"})
    ours = frozenset({"192.0.2.1"})
    with pytest.raises(ForeignRecords):
        subject.driver.replace(mixed, frozenset({"192.0.2.2"}), ours)
    assert subject.look(mixed.name, "A") == {"192.0.2.1", "203.0.113.1"}
    subject.driver.replace(mixed, NONE, ours)
    assert subject.look(mixed.name, "A") == {"203.0.113.1"}


def unknown_zones_are_refused(subject: Subject) -> None:
    with pytest.raises(Refused, match=r"unknown\.example\."):
        subject.driver.replace(subject.name("www", zone="unknown.example."), frozenset({"192.0.2.1"}), NONE)


def a_service_that_is_down(subject: Subject) -> None:
    late, addresses = subject.name("late"), frozenset({"192.0.2.9"})
    subject.stop()
    with pytest.raises(Unreachable):
        subject.driver.replace(late, addresses, NONE)
    subject.start()
    subject.driver.replace(late, addresses, addresses)
    assert subject.look(late.name, "A") == addresses


CASES = [
    published_changed_and_removed,
    types_are_independent,
    repeated_after_a_lost_answer,
    records_of_others_are_refused,
    records_of_others_next_to_ours_stay,
    unknown_zones_are_refused,
    a_service_that_is_down,
]
