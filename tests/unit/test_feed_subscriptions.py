"""The subscription index: topics by cause, counted, and topics that refer to others."""

from __future__ import annotations

from neutrino.server.feed.subscriptions import NO_TOPICS, Subscriptions

NETWORK, GROUP, MEMBERS = ("network", "n"), ("security_group", "g"), ("group_members", "r")
FIRST, SECOND = ("port", "1"), ("port", "2")


def index() -> tuple[Subscriptions, list[tuple[str, str, str]]]:
    notified: list[tuple[str, str, str]] = []
    made = Subscriptions(lambda host, kind, key: notified.append((host, kind, key)))
    return made, notified


def test_a_topic_is_kept_until_its_last_cause_is_gone() -> None:
    subscriptions, notified = index()
    for cause in (FIRST, SECOND):
        subscriptions.refer("h1", cause, frozenset({NETWORK}))
    subscriptions.refer("h1", FIRST, NO_TOPICS)
    assert subscriptions.hosts(*NETWORK) == {"h1"}
    assert notified == [("h1", *NETWORK)]
    subscriptions.refer("h1", SECOND, NO_TOPICS)
    assert not subscriptions.has("h1", *NETWORK)
    assert notified == [("h1", *NETWORK)] * 2


def test_a_cause_is_replaced_as_a_whole() -> None:
    subscriptions, notified = index()
    subscriptions.refer("h1", FIRST, frozenset({NETWORK, GROUP}))
    notified.clear()
    subscriptions.refer("h1", FIRST, frozenset({NETWORK}))
    subscriptions.refer("h1", FIRST, frozenset({NETWORK}))
    assert notified == [("h1", *GROUP)]
    assert subscriptions.keys("h1", "network") == {"n"}
    assert not subscriptions.keys("h1", "security_group")


def test_hosts_of_a_topic_are_subscribed_to_what_it_refers_to() -> None:
    subscriptions, notified = index()
    subscriptions.refer("h1", FIRST, frozenset({GROUP}))
    subscriptions.link(GROUP, frozenset({MEMBERS}))
    subscriptions.refer("h2", SECOND, frozenset({GROUP}))
    assert subscriptions.hosts(*MEMBERS) == {"h1", "h2"}
    subscriptions.refer("h1", FIRST, NO_TOPICS)
    assert subscriptions.hosts(*MEMBERS) == {"h2"}
    notified.clear()
    subscriptions.link(GROUP, NO_TOPICS)
    assert notified == [("h2", *MEMBERS)]
