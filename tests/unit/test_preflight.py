"""What `neutrino up` finds out before it wires networks."""

from neutrino.cli.preflight import missing_netlink

UNASSIGNED = 31  # the last number of a netlink protocol, which no kernel has given a meaning


def test_netlink_of_netfilter_is_there() -> None:
    assert missing_netlink() == ""


def test_a_netlink_protocol_that_is_refused_is_named_with_the_reason() -> None:
    assert "refused (Protocol not supported)" in missing_netlink(UNASSIGNED)
