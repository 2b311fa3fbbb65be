"""The contract of Iptables, on the fake and on a real kernel in a network namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neutrino.dataplane.iptables import real
from neutrino.dataplane.iptables.api import SETTINGS, AddressSet, Iptables, IptablesError, Rule
from neutrino.dataplane.iptables.real import RealIptables
from tests.fakes.iptables import FakeIptables
from tests.support.throwaway_namespace import ThrowawayNamespace


@pytest.fixture(params=["fake", "real"])
def iptables(request: pytest.FixtureRequest) -> Iterator[Iptables]:
    if request.param == "fake":
        yield FakeIptables()
        return
    with ThrowawayNamespace() as namespace:
        yield namespace.driver(RealIptables())


def table(*lines: str, name: str = "filter") -> str:
    return "".join(f"{line}\n" for line in (f"*{name}", *lines, "COMMIT"))


def comments(rules: tuple[Rule, ...]) -> list[str]:
    return [rule.comment for rule in rules]


OURS = (
    ":one - [0:0]",
    ":two - [0:0]",
    "-A one -p 6 -m tcp --dport 80 -m comment --comment x:1 -j RETURN",
    "-A one -m comment --comment x:2 -j two",
    "-A two -m comment --comment x:3 -j DROP",
    "-I FORWARD 1 -m comment --comment x:4 -j one",
)


@pytest.mark.parametrize("family", [4, 6])
def test_chains_are_read_back_in_order(iptables, family):
    iptables.restore_rules(family, table(*OURS))
    there = iptables.read_rules(family)["filter"]
    assert comments(there["one"]) == ["x:1", "x:2"]
    assert [rule.target for rule in there["one"]] == ["RETURN", "two"]
    assert comments(there["two"]) == ["x:3"]
    assert comments(there["FORWARD"]) == ["x:4"]
    assert not any(iptables.read_rules(10 - family).get("filter", {}).values())


def test_a_declared_chain_is_emptied_and_others_stay(iptables):
    iptables.restore_rules(4, table(*OURS))
    iptables.restore_rules(4, table(":two - [0:0]", "-A two -m comment --comment x:5 -j ACCEPT"))
    there = iptables.read_rules(4)["filter"]
    assert (comments(there["one"]), comments(there["two"])) == (["x:1", "x:2"], ["x:5"])


def test_rules_are_inserted_in_front_and_deleted_as_they_are_printed(iptables):
    iptables.restore_rules(4, table("-A FORWARD -p 17 -m udp --dport 9 -m comment --comment theirs -j ACCEPT", *OURS))
    there = iptables.read_rules(4)["filter"]["FORWARD"]
    assert comments(there) == ["x:4", "theirs"]
    iptables.restore_rules(4, table(f"-D FORWARD {there[0].text}"))
    assert comments(iptables.read_rules(4)["filter"]["FORWARD"]) == ["theirs"]
    iptables.restore_rules(4, table(f"-D FORWARD {there[1].text}"))
    assert iptables.read_rules(4)["filter"]["FORWARD"] == ()


def test_chains_are_removed(iptables):
    iptables.restore_rules(4, table(*OURS))
    (jump,) = iptables.read_rules(4)["filter"]["FORWARD"]
    removal = (":one - [0:0]", ":two - [0:0]", f"-D FORWARD {jump.text}", "-X one", "-X two")
    iptables.restore_rules(4, table(*removal))
    assert iptables.read_rules(4)["filter"].keys() <= {"INPUT", "FORWARD", "OUTPUT"}


@pytest.mark.parametrize(
    "refused",
    [
        "-A one -m comment --comment x:6 -j nowhere",
        "-A nowhere -j DROP",
        "-D FORWARD -p 6 -j DROP",
        "-X two",
        "-A one -m set --match-set missing src -j DROP",
    ],
)
def test_a_refused_change_changes_nothing(iptables, refused):
    iptables.restore_rules(4, table(*OURS))
    before = iptables.read_rules(4)
    with pytest.raises(IptablesError):
        iptables.restore_rules(4, table("-A two -m comment --comment x:7 -j ACCEPT", refused))
    assert iptables.read_rules(4) == before


def test_tables_are_separate(iptables):
    iptables.restore_rules(4, table(":one - [0:0]", "-A one -j CT --notrack", name="raw") + table(*OURS))
    assert len(iptables.read_rules(4)["raw"]["one"]) == 1
    assert len(iptables.read_rules(4)["filter"]["one"]) == 2


# --- sets ---


def test_sets_are_read_back(iptables):
    iptables.restore_sets(
        "create four hash:net family inet maxelem 1000\nadd four 10.0.0.1\nadd four 10.1.2.3/16\n"
        "create six hash:net family inet6 maxelem 65536\nadd six 2001:db8:0::1/128\nadd six 2001:db8:5::/48\n"
    )
    assert iptables.read_sets() == {
        "four": AddressSet("four", 4, frozenset({"10.0.0.1", "10.1.0.0/16"}), capacity=1000),
        "six": AddressSet("six", 6, frozenset({"2001:db8::1", "2001:db8:5::/48"})),
    }


def test_members_are_added_and_removed_twice(iptables):
    iptables.restore_sets("create four hash:net family inet maxelem 1000\nadd four 10.0.0.1\n")
    for _ in range(2):
        iptables.restore_sets("add four 10.0.0.2\ndel four 10.0.0.1\ndestroy missing\n")
    assert iptables.read_sets()["four"].members == {"10.0.0.2"}


def test_a_set_is_swapped_with_one_in_use(iptables):
    iptables.restore_sets("create four hash:net family inet maxelem 1000\nadd four 10.0.0.1\n")
    iptables.restore_rules(4, table("-A FORWARD -m set --match-set four src -j DROP"))
    with pytest.raises(IptablesError):
        iptables.restore_sets("create four hash:net family inet maxelem 2000\n")
    with pytest.raises(IptablesError):
        iptables.restore_sets("destroy four\n")
    iptables.restore_sets(
        "create new hash:net family inet maxelem 2000\nadd new 10.0.0.2\nswap new four\ndestroy new\n"
    )
    assert iptables.read_sets() == {"four": AddressSet("four", 4, frozenset({"10.0.0.2"}), capacity=2000)}


@pytest.mark.parametrize("refused", ["add missing 10.0.0.1", "del missing 10.0.0.1", "add four 0.0.0.0/0"])
def test_refused_changes_of_sets(iptables, refused):
    iptables.restore_sets("create four hash:net family inet maxelem 1000\n")
    with pytest.raises(IptablesError):
        iptables.restore_sets(f"{refused}\n")


# --- bridges ---


def test_bridges_are_sent_through_the_filter(iptables):
    iptables.enable(SETTINGS)
    assert iptables.read_settings() == dict.fromkeys(SETTINGS, True)
    iptables.enable(SETTINGS)


def test_the_setting_is_that_of_the_namespace():
    with ThrowawayNamespace() as here, ThrowawayNamespace() as there:
        for namespace in (here, there):
            namespace.run("tee", "/proc/sys/net/bridge/bridge-nf-call-iptables", text="0\n")
        here.driver(RealIptables()).enable(SETTINGS)
        assert here.driver(RealIptables()).read_settings()[SETTINGS[0]] is True
        assert there.driver(RealIptables()).read_settings()[SETTINGS[0]] is False


def test_a_kernel_without_the_module_is_named(monkeypatch):
    monkeypatch.setattr(real, "SETTINGS", ("net.bridge.bridge-nf-call-missing",))
    with pytest.raises(IptablesError, match=r"br_netfilter.*modprobe br_netfilter"):
        RealIptables().read_settings()


def test_an_error_quotes_the_line():
    with ThrowawayNamespace() as namespace, pytest.raises(IptablesError, match=r"\(-A FORWARD --nothing\)"):
        namespace.driver(RealIptables()).restore_rules(
            4, table(":one - [0:0]", "-A FORWARD --nothing", "-A one -j DROP")
        )


def test_a_program_that_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(IptablesError, match="iptables-save"):
        RealIptables().read_rules(4)
