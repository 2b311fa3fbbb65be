"""What a host reports for Placement, by Neutron's options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neutrino.agent.config import check, configuration
from neutrino.agent.l2.build import describe, rates_with_tunnels
from neutrino.agent.resource_providers import report
from neutrino.errors import RefusedToStart

REQUIRED = "[DEFAULT]\nhost = h1\n[feed]\nserver = unix:/s\ncredential_file = /c\n"
OVS = "[ovs]\nbridge_mappings = one:br-a, two:br-b\n"
INVENTORY = {"allocation_ratio": 1.0, "min_unit": 1, "step_size": 1, "reserved": 0}


def reported(tmp_path: Path, text: str = "", more: str = "") -> dict[str, Any]:
    file = tmp_path / "agent.ini"
    file.write_text(f"{REQUIRED}{OVS}{text}\n{more}")
    conf = configuration([str(file)])
    check(conf)
    return report(conf, ["br-a", "br-b"], lambda: "h1.example")


def test_nothing_is_configured(tmp_path: Path) -> None:
    assert reported(tmp_path) == {
        "resource_provider_bandwidths": {},
        "resource_provider_inventory_defaults": INVENTORY,
        "resource_provider_packet_processing_without_direction": {},
        "resource_provider_packet_processing_with_direction": {},
        "resource_provider_packet_processing_inventory_defaults": INVENTORY,
        "resource_provider_hypervisors": {"br-a": "h1", "br-b": "h1", "rp_tunnelled": "h1"},
        "tunnelled_network_rp_name": "rp_tunnelled",
    }


def test_bandwidths_and_their_hypervisors(tmp_path: Path) -> None:
    options = """
resource_provider_bandwidths = br-a:1000:2000, br-b::5, rp_tunnelled:7:
resource_provider_hypervisors = br-b:other
resource_provider_inventory_defaults = allocation_ratio:1.5,max_unit:9,reserved:3
"""
    found = reported(tmp_path, options)
    assert found["resource_provider_bandwidths"] == {
        "br-a": {"egress": 1000, "ingress": 2000},
        "br-b": {"egress": None, "ingress": 5},
        "rp_tunnelled": {"egress": 7, "ingress": None},
    }
    hypervisors = {"br-a": "h1.example", "br-b": "other", "rp_tunnelled": "h1.example"}
    assert found["resource_provider_hypervisors"] == hypervisors
    inventory = {"allocation_ratio": 1.5, "max_unit": 9, "reserved": 3}
    assert found["resource_provider_inventory_defaults"] == inventory


@pytest.mark.parametrize(
    ("option", "rates"),
    [
        ("without_direction = :10, h2:20", {"h1.example": {"any": 10}, "h2": {"any": 20}}),
        (
            "with_direction = :1:2, h2:3:",
            {"h1.example": {"egress": 1, "ingress": 2}, "h2": {"egress": 3, "ingress": None}},
        ),
    ],
)
def test_packet_rates_of_hypervisors(tmp_path: Path, option: str, rates: object) -> None:
    found = reported(tmp_path, f"resource_provider_packet_processing_{option}")
    assert found[f"resource_provider_packet_processing_{option.split()[0]}"] == rates


def test_the_agent_reports_it(tmp_path: Path) -> None:
    file = tmp_path / "agent.ini"
    text = "resource_provider_bandwidths = br-a:1:2\nresource_provider_default_hypervisor = hv\n"
    file.write_text(f"{REQUIRED}{OVS}{text}")
    configurations = describe(configuration([str(file)])).configurations
    assert configurations["resource_provider_bandwidths"] == {"br-a": {"egress": 1, "ingress": 2}}
    assert configurations["resource_provider_hypervisors"]["br-a"] == "hv"


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("resource_provider_bandwidths = br-c:1:1", "br-c is no bridge of bridge_mappings"),
        ("resource_provider_bandwidths = br-a:1:2147483648", "is not bridge:egress:ingress"),
        ("resource_provider_bandwidths = br-a:-1:1", "is not bridge:egress:ingress"),
        ("resource_provider_bandwidths = br-a:\N{ARABIC-INDIC DIGIT ONE}:1", "is not bridge:egress:ingress"),
        ("resource_provider_hypervisors = br-c:h", "br-c is no bridge of bridge_mappings"),
        ("resource_provider_inventory_defaults = min_unit:0", "min_unit=0 is not a whole number from 1 on"),
        ("resource_provider_inventory_defaults = allocation_ratio:nan", "allocation_ratio=nan is not a number above 0"),
        ("resource_provider_inventory_defaults = total:5", "'total' is none of allocation_ratio, max_unit"),
        (
            "resource_provider_packet_processing_without_direction = h:1\n"
            "resource_provider_packet_processing_with_direction = h:1:1",
            "only one of them can be set",
        ),
        ("resource_provider_packet_processing_without_direction = h:1:1", "is not hypervisor:rate"),
        ("resource_provider_packet_processing_without_direction = :1, h1:2", "names h1 a second time"),
    ],
)
def test_what_cannot_be_reported_refuses_the_start(tmp_path: Path, option: str, problem: str) -> None:
    with pytest.raises(RefusedToStart, match=problem):
        reported(tmp_path, option)


def test_the_device_of_tunnels_has_the_rate_that_tunnels_share() -> None:
    assert rates_with_tunnels((("br-a", 5), ("rp_tunnelled", 7)), "rp_tunnelled", "eth0") == (("br-a", 5), ("eth0", 7))
    rates = (("eth0", 5), ("rp_tunnelled", 7))
    assert rates_with_tunnels(rates, "rp_tunnelled", "eth0") == (("eth0", 5),), "its own rate"
    assert rates_with_tunnels((("br-a", 5),), "br-a", "br-a") == (("br-a", 5),)
