"""The contract of the nft driver, on the fake and on real tables in real namespaces."""

from __future__ import annotations

import dataclasses
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator

import pytest

from neutrino.agent.runtime.service_namespaces import plan_table
from neutrino.dataplane.netlink.api import SetDevice, SetItem, SetSysctl, SetVeth
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.netlink.values import address, route
from neutrino.dataplane.nft.api import (
    METERING,
    Chain,
    Count,
    ElementChange,
    Hook,
    Nft,
    NftError,
    Table,
    TablePlan,
    TableState,
    nft_set,
)
from neutrino.dataplane.nft.real import RealNft
from tests.fakes.netlink import FakeNetlink
from tests.fakes.nft import FakeNft

PREROUTING = Hook("nat", "prerouting", -100)
POSTROUTING = Hook("nat", "postrouting", 100)

TABLE = Table(
    chains=(
        Chain("scoped", ("accept",)),
        Chain(
            "prerouting",
            ("dnat ip to ip daddr map @floating", "dnat ip to ip daddr . meta l4proto . th dport map @forwarded"),
            PREROUTING,
        ),
        Chain("postrouting", ("snat ip to ip saddr map @fixed", 'oifname "qg-1" masquerade'), POSTROUTING),
        Chain("forward", ("iifname vmap @by_device",), Hook("filter", "forward", 0, "drop")),
    ),
    sets=(
        nft_set("floating", "ipv4_addr : ipv4_addr", ["203.0.113.5 : 10.0.0.5", "203.0.113.6 : 10.0.0.6"]),
        nft_set("fixed", "ipv4_addr : ipv4_addr", ["10.0.0.5 : 203.0.113.5"]),
        nft_set(
            "forwarded",
            "ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service",
            ["203.0.113.7 . tcp . 80 : 10.0.0.9 . 8080", "203.0.113.7 . udp . 53 : 10.0.0.9 . 53"],
        ),
        nft_set("by_device", "ifname : verdict", ['"qr-1" : jump scoped', '"qr-2" : accept']),
        nft_set("nets", "ipv6_addr", ["2001:DB8::/64", "2001:db8:1::1"], flags=["interval"]),
        nft_set("nets4", "ipv4_addr", ["10.0.0.0/25", "10.0.1.1-10.0.1.9", "10.0.2.2/32"], flags=["interval"]),
        nft_set("marks", "mark", ["0x4000000", "7"]),
        nft_set("macs", "ether_addr", ["fa:16:3e:00:00:01"]),
        nft_set("empty", "ipv4_addr"),
    ),
)


class Place:
    def __init__(self, kind: str) -> None:
        self.name = f"nft-{uuid.uuid4().hex[:8]}"
        self.netlink = FakeNetlink() if kind == "fake" else RealNetlink()
        self.nft: Nft = FakeNft(self.netlink) if isinstance(self.netlink, FakeNetlink) else RealNft()
        self.netlink.create_namespace(self.name)

    def read(self) -> TableState | None:
        return self.nft.read(self.name).get(TABLE.path)

    def settle(self, table: Table) -> str:
        """Apply the plan of a table and return its text; the second plan must be empty."""
        plan = plan_table(table, self.read())
        self.nft.apply(self.name, plan)
        again = plan_table(table, self.read())
        assert not again, again.text()
        return plan.text()

    def run(self, *words: str) -> None:
        """By hand, as an operator."""
        subprocess.run(["ip", "netns", "exec", self.name, "nft", *words], check=True, capture_output=True)

    def close(self) -> None:
        self.netlink.delete_namespace(self.name)


@pytest.fixture(params=["fake", "real"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    made = Place(request.param)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def real() -> Iterator[Place]:
    made = Place("real")
    try:
        yield made
    finally:
        made.close()


def test_a_table_from_nothing(place):
    assert place.read() is None
    assert place.settle(TABLE) == "replace table inet neutrino: it does not exist"
    state = place.read()
    assert state.digest == TABLE.digest()
    assert state.elements["floating"] == {"203.0.113.5 : 10.0.0.5", "203.0.113.6 : 10.0.0.6"}
    assert state.elements["forwarded"] == {
        "203.0.113.7 . 6 . 80 : 10.0.0.9 . 8080",
        "203.0.113.7 . 17 . 53 : 10.0.0.9 . 53",
    }
    assert state.elements["nets"] == {"2001:db8::/64", "2001:db8:1::1"}
    assert state.chains["forward"].hook == Hook("filter", "forward", 0, "drop")
    assert len(state.chains["postrouting"].marks) == 2
    assert place.settle(TABLE) == ""


def test_an_empty_table(place):
    place.settle(Table())
    assert place.settle(Table()) == ""


def test_a_changed_rule_replaces_the_table(place):
    place.settle(TABLE)
    chains = (*TABLE.chains[:-1], dataclasses.replace(TABLE.chains[-1], rules=("accept",)))
    assert place.settle(dataclasses.replace(TABLE, chains=chains)) == (
        "replace table inet neutrino: its rendering changed"
    )


def test_elements_change_singly(place):
    place.settle(TABLE)
    new = {"203.0.113.5 : 10.0.0.77", "203.0.113.8 : 10.0.0.8"}
    sets = (dataclasses.replace(TABLE.sets[0], elements=frozenset(new)), *TABLE.sets[1:])
    assert place.settle(dataclasses.replace(TABLE, sets=sets)).splitlines() == [
        "remove element floating 203.0.113.5 : 10.0.0.5",
        "remove element floating 203.0.113.6 : 10.0.0.6",
        "add element floating 203.0.113.5 : 10.0.0.77",
        "add element floating 203.0.113.8 : 10.0.0.8",
    ]
    everything = tuple(dataclasses.replace(each, elements=frozenset()) for each in TABLE.sets)
    assert "replace" not in place.settle(dataclasses.replace(TABLE, sets=everything))
    assert "replace" not in place.settle(TABLE)


def test_elements_that_exist_or_are_missing_already(place):
    place.settle(TABLE)
    change = ElementChange(
        "floating",
        add=frozenset({"203.0.113.5 : 10.0.0.5", "203.0.113.6 : 10.0.0.66", "203.0.113.9 : 10.0.0.9"}),
        remove=frozenset({"203.0.113.99 : 10.0.0.99"}),
    )
    for _ in range(2):
        place.nft.apply(place.name, TablePlan(TABLE.path, elements=(change,)))
        assert place.read().elements["floating"] == change.add


def test_elements_of_nothing_are_refused_and_nothing_is_changed(place):
    place.settle(TABLE)
    good = ElementChange("floating", add=frozenset({"203.0.113.9 : 10.0.0.9"}))
    bad = ElementChange("none", add=frozenset({"10.0.0.1"}))
    with pytest.raises(NftError, match=place.name):
        place.nft.apply(place.name, TablePlan(TABLE.path, elements=(good, bad)))
    assert place.settle(TABLE) == ""
    with pytest.raises(NftError):
        place.nft.apply(place.name, TablePlan("inet other", elements=(good,)))


def test_a_key_with_two_values_is_refused(place):
    place.settle(TABLE)
    twice = nft_set("floating", "ipv4_addr : ipv4_addr", ["203.0.113.5 : 10.0.0.5", "203.0.113.5 : 10.0.0.6"])
    wrong = dataclasses.replace(TABLE, sets=(twice, *TABLE.sets[1:]))
    with pytest.raises(NftError):
        place.nft.apply(place.name, TablePlan(TABLE.path, wrong))
    assert place.settle(TABLE) == ""


def test_a_table_is_deleted(place):
    place.settle(TABLE)
    place.nft.apply(place.name, TablePlan(TABLE.path, delete=True))
    place.nft.apply(place.name, TablePlan(TABLE.path, delete=True))
    assert place.read() is None


def test_a_missing_namespace(place):
    for call in (
        lambda: place.nft.read("nft-none"),
        lambda: place.nft.apply("nft-none", TablePlan(TABLE.path, TABLE)),
        lambda: place.nft.apply("nft-none", TablePlan(TABLE.path, delete=True)),
    ):
        with pytest.raises(NftError, match="nft-none"):
            call()


def test_a_table_is_deleted_with_its_namespace(place):
    place.settle(TABLE)
    place.netlink.delete_namespace(place.name)
    place.netlink.create_namespace(place.name)
    assert place.read() is None


def test_an_element_of_another_type():
    with pytest.raises(ValueError, match=r"10\.0\.0\.1: not of type"):
        nft_set("floating", "ipv4_addr : ipv4_addr", ["10.0.0.1"])


@pytest.mark.parametrize("rule", ['accept comment "x"', "accept\ndrop"])
def test_a_rule_is_one_line_without_a_comment(rule):
    with pytest.raises(ValueError, match="one line"):
        Chain("c", (rule,))


# --- on real tables alone ---


def test_a_refused_table_leaves_the_old_one(real):
    real.settle(TABLE)
    wrong = dataclasses.replace(TABLE, chains=(*TABLE.chains, Chain("wrong", ("jump nowhere",))))
    with pytest.raises(NftError, match="nowhere"):
        real.nft.apply(real.name, TablePlan(wrong.path, wrong))
    assert real.settle(TABLE) == ""


@pytest.mark.parametrize(
    "by_hand",
    [
        ("add", "rule", "inet", "neutrino", "forward", "counter"),
        ("insert", "rule", "inet", "neutrino", "postrouting", "accept"),
        ("flush", "chain", "inet", "neutrino", "prerouting"),
        ("add", "chain", "inet", "neutrino", "mine"),
        ("add", "chain", "inet", "neutrino", "forward", "{ policy accept; }"),
        ("add", "set", "inet", "neutrino", "mine", "{ type ipv4_addr; }"),
    ],
)
def test_changes_by_hand_are_detected_and_repaired(real, by_hand):
    real.settle(TABLE)
    real.run(*by_hand)
    assert "by hand" in real.settle(TABLE)


def test_elements_that_were_changed_by_hand_are_repaired_singly(real):
    real.settle(TABLE)
    real.run("delete", "element", "inet", "neutrino", "floating", "{ 203.0.113.5 }")
    real.run("add", "element", "inet", "neutrino", "nets", "{ 2001:db8:7::/64 }")
    assert real.settle(TABLE).splitlines() == [
        "add element floating 203.0.113.5 : 10.0.0.5",
        "remove element nets 2001:db8:7::/64",
    ]


def test_tables_of_others_are_left(real):
    real.run("add", "table", "inet", "others")
    real.run("add", "chain", "inet", "others", "c")
    real.settle(TABLE)
    real.nft.apply(real.name, TablePlan(TABLE.path, delete=True))
    shown = subprocess.run(["ip", "netns", "exec", real.name, "nft", "list", "ruleset"], capture_output=True, text=True)
    assert "table inet others" in shown.stdout
    assert "chain c" in shown.stdout


def test_a_table_of_that_name_that_is_not_ours(real):
    real.run("add", "table", "inet", "neutrino")
    assert real.settle(TABLE) == "replace table inet neutrino: it was not rendered by this agent"


def test_declarations(real):
    helper = 'ct helper ftp-21 {\ntype "ftp" protocol tcp;\n}'
    limit = "limit slow {\nrate 10/second;\n}"
    chain = Chain("forward", ('limit name "slow" accept',), Hook("filter", "forward", 0))
    real.settle(Table((chain,), declarations=(limit,)))
    assert plan_table(Table((chain,), declarations=(limit, helper)), real.read()).reason == "its rendering changed"


def test_packets_are_translated_by_elements_added_later(real):
    """A floating IP: a machine outside reaches it, and a replacement of the table in between breaks nothing."""
    outside, inside = f"{real.name}-o", f"{real.name}-i"
    try:
        connect(real, outside, inside)
        floating = nft_set("floating", "ipv4_addr : ipv4_addr")
        chain = Chain("prerouting", ("dnat ip to ip daddr map @floating",), PREROUTING)
        table = Table((chain,), (floating,))
        real.settle(table)
        assert not reaches(outside, inside, "203.0.113.5")
        real.settle(Table((chain,), (nft_set("floating", floating.type, ["203.0.113.5 : 10.0.0.5"]),)))
        assert reaches(outside, inside, "203.0.113.5")
        more = Table(
            (chain, Chain("more", ("accept",))), (nft_set("floating", floating.type, ["203.0.113.5 : 10.0.0.5"]),)
        )
        real.settle(more)
        assert reaches(outside, inside, "203.0.113.5")
    finally:
        real.netlink.delete_namespace(outside)
        real.netlink.delete_namespace(inside)


def connect(router: Place, outside: str, inside: str) -> None:
    netlink = router.netlink
    for name, near, ip, gateway in [
        (outside, "qg-1", "203.0.113.100/24", "203.0.113.1"),
        (inside, "qr-1", "10.0.0.5/24", "10.0.0.1"),
    ]:
        netlink.create_namespace(name)
        netlink.apply(name, [SetVeth("eth0", near, router.name), SetDevice("eth0", up=True)])
        netlink.apply(name, [SetItem(address("eth0", ip)), SetItem(route("0.0.0.0/0", "eth0", gateway))])
        netlink.apply(router.name, [SetDevice(near, up=True), SetItem(address(near, f"{gateway}/24"))])
    forward = SetSysctl("net/ipv4/ip_forward", "1")
    arp = SetSysctl("net/ipv4/conf/qg-1/proxy_arp", "1")
    netlink.apply(router.name, [forward, arp, SetItem(address("qg-1", "203.0.113.5/32"))])


def reaches(outside: str, inside: str, ip: str) -> bool:
    """Whether a datagram to the address reaches the machine inside."""
    namespaces = Namespaces()

    def open_socket() -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    with namespaces.run(inside, open_socket) as receiver, namespaces.run(outside, open_socket) as sender:
        receiver.bind(("10.0.0.5", 4000))
        receiver.settimeout(0.1)
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            sender.sendto(b"hello", (ip, 4000))
            try:
                return receiver.recv(10) == b"hello"
            except TimeoutError:
                continue
    return False


def test_a_thousand_elements(real):
    many = [f"203.0.{number // 250}.{number % 250} : 10.0.{number // 250}.{number % 250}" for number in range(1000)]
    floating = nft_set("floating", "ipv4_addr : ipv4_addr", many)
    table = Table((Chain("c", ("dnat ip to ip daddr map @floating",), PREROUTING),), (floating,))
    real.settle(table)
    one_less = dataclasses.replace(floating, elements=floating.elements - {many[7]})
    assert real.settle(dataclasses.replace(table, sets=(one_less,))) == f"remove element floating {many[7]}"


def test_no_program(real, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NftError, match=r"nft: .*No such file"):
        RealNft().apply(real.name, TablePlan(TABLE.path, TABLE))


def test_tables_of_others_that_drop(real):
    """Also by a chain's policy or a refusal; one that only counts or accepts cuts nothing off, and ours are no others."""
    real.settle(TABLE)
    assert real.nft.foreign_drops(real.name) == ()
    real.run("add table inet counts")
    real.run("add chain inet counts forward { type filter hook forward priority 0; policy accept; }")
    real.run("add rule inet counts forward counter accept")
    assert real.nft.foreign_drops(real.name) == ()
    real.run("add table ip cuts")
    real.run("add chain ip cuts forward { type filter hook forward priority 0; policy accept; }")
    real.run("add rule ip cuts forward tcp dport 80 counter drop")
    real.run("add table ip6 refuses")
    real.run("add chain ip6 refuses any")
    real.run("add rule ip6 refuses any reject")
    real.run("add table inet strict")
    real.run("add chain inet strict input { type filter hook input priority 0; policy drop; }")
    assert real.nft.foreign_drops(real.name) == ("inet strict", "ip cuts", "ip6 refuses")
    assert set(real.nft.read(real.name)) == {TABLE.path}, "they are not ours to compare"


# --- counters ---

LOOPED = Hook("filter", "output", 0)
COUNTING = Table(
    (Chain("counted", ('udp dport 4000 counter name "one"', 'udp dport 4001 counter name "two"'), LOOPED),),
    name=METERING,
    counters=("one", "two"),
)


def count(place: Place, port: int) -> None:
    """A datagram of 33 bytes passes the rule of a port."""
    if isinstance(place.nft, FakeNft):
        place.nft.count(place.name, COUNTING.path, {4000: "one", 4001: "two"}[port], 1, 33)
        return
    place.netlink.apply(place.name, [SetDevice("lo", up=True)])
    with Namespaces().run(place.name, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender:
        sender.sendto(b"hello", ("127.0.0.1", port))


def counters(place: Place) -> dict[str, Count]:
    return dict(place.nft.read(place.name)[COUNTING.path].counters)


def put(place: Place, table: Table) -> None:
    place.nft.apply(place.name, plan_table(table, place.nft.read(place.name).get(table.path)))
    assert not plan_table(table, place.nft.read(place.name).get(table.path))


def test_counters_keep_their_values_when_the_table_changes(place):
    place.settle(TABLE)
    put(place, COUNTING)
    assert counters(place) == {"one": Count(), "two": Count()}
    for port in (4000, 4000, 4001):
        count(place, port)
    rules = ('udp dport 4000-4002 counter name "one"', 'udp dport 9 counter name "three"')
    changed = dataclasses.replace(COUNTING, chains=(Chain("counted", rules, LOOPED),), counters=("one", "three"))
    put(place, changed)
    assert counters(place) == {"one": Count(2, 66), "three": Count()}
    count(place, 4000)
    place.settle(dataclasses.replace(TABLE, chains=TABLE.chains[:-1]))  # another table of ours
    assert counters(place)["one"] == Count(3, 99)
    put(place, COUNTING)
    assert counters(place) == {"one": Count(3, 99), "two": Count()}  # one that was gone starts again


def test_a_table_with_counters_has_no_sets():
    with pytest.raises(ValueError, match="counters"):
        Table(sets=(nft_set("s", "mark"),), counters=("one",))
