"""Internal DNS names of ports, which a network's dnsmasq answers to every instance on the network. Pure.

Several projects may share a network. A name leads to ports of one project: the first that has it; ports of others have the
name of their address instead. Names of addresses belong to the addresses. Names are compared by their first label, for
which alone dnsmasq answers too.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from neutrino.model.fields import is_address

_PREFIX: Final = "host-"


def address_name(address: str) -> str:
    """The name of a port that has none."""
    return _PREFIX + address.replace(".", "-").replace(":", "-")


def first_label(name: str) -> str:
    return name.partition(".")[0].lower()


def is_of_another_address(label: str, addresses: Iterable[str]) -> bool:
    """Whether a label is the name of an address that is not one of these."""
    rest = label.removeprefix(_PREFIX)
    is_name = rest != label and any(is_address(rest.replace("-", sign)) for sign in ".:")
    return is_name and label not in map(address_name, addresses)


def owners(names: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """The project of each label, from labels with projects in an order on which all agree: the first."""
    found: dict[str, str] = {}
    for label, project in names:
        found.setdefault(label, project)
    return found
