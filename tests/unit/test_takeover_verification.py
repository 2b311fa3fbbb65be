"""The comparison of two servers, page by page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from neutrino.takeover.family import Shown
from neutrino.takeover.verification import Verification, to_json, verify

Objects = Mapping[str, Sequence[Mapping[str, Any]]]
PORTS = Shown("ports", parts=(("ports/{id}/bindings", "bindings"),))


class Pages:
    """A server that sends its objects in pages of three."""

    def __init__(self, objects: Objects, size: int = 3) -> None:
        self.objects, self.size = objects, size
        self.asked: list[str] = []

    def page(self, path: str, key: str, marker: str | None = None) -> list[dict[str, Any]] | None:
        self.asked.append(path)
        if path not in self.objects:
            return None
        objects = [dict(one) for one in self.objects[path]]
        start = 0 if marker is None else [one["id"] for one in objects].index(marker) + 1
        return objects[start : start + self.size]


def ports(*numbers: int, **values: Any) -> list[dict[str, Any]]:
    return [{"id": f"p{number}", "name": str(number), **values} for number in numbers]


def compared(theirs: Objects, ours: Objects, *collections: Shown, sample: int = 100) -> Verification:
    return verify("administrator", Pages(theirs), Pages(ours, size=5), collections or (PORTS,), sample)


def test_equal_servers() -> None:
    result = compared({"ports": ports(*range(20))}, {"ports": ports(*range(20), extra=True)})
    assert (result.counts, result.differences) == ({"ports": 20}, [])


def test_other_orders_do_not_matter() -> None:
    assert compared({"ports": ports(*range(20))}, {"ports": ports(*reversed(range(20)))}).differences == []


def test_what_differs_is_named() -> None:
    ours = [*ports(*range(1, 9)), *ports(20)]
    ours[3] = {**ours[3], "name": "other"}
    found = [str(one) for one in sorted(compared({"ports": ports(*range(9))}, {"ports": ours}).differences)]
    assert found == [
        "ports p0: object: Neutron present, neutrino missing",
        "ports p20: object: Neutron missing, neutrino present",
        'ports p4: name: Neutron "4", neutrino "other"',
    ]


def test_collections_that_one_server_lacks() -> None:
    shown = (Shown("networks"), Shown("trunks"), Shown("bgpvpns"))
    result = compared({"networks": [], "trunks": ports(1)}, {"networks": []}, *shown)
    assert [str(one) for one in result.differences] == ["trunks *: object: Neutron present, neutrino not served"]
    assert result.counts == {"networks": 0}


def test_objects_without_an_id_are_one_page() -> None:
    quotas = [{"project_id": name, "port": 5} for name in "abc"]
    result = compared({"quotas": quotas}, {"quotas": [*quotas[:2], {"project_id": "c", "port": 6}]}, Shown("quotas"))
    assert [str(one) for one in result.differences] == ["quotas c: port: Neutron 5, neutrino 6"]


def test_parts_of_a_sample() -> None:
    bindings = {f"ports/p{number}/bindings": [{"host": "h1", "vif_type": "ovs"}] for number in range(20)}
    theirs = Pages({"ports": ports(*range(20)), **bindings})
    changed = {"ports/p1/bindings": [{"host": "h1", "vif_type": "unbound"}], "ports/p2/bindings": []}
    ours = Pages({"ports": ports(*range(20)), **bindings, **changed})
    found = verify("administrator", theirs, ours, [PORTS], sample=4).differences
    assert [(one.collection, one.attribute) for one in found] == [
        ("ports/p1/bindings", "vif_type"),
        ("ports/p2/bindings", ""),
    ]
    assert [path for path in theirs.asked if path != "ports"] == [f"ports/p{number}/bindings" for number in range(4)]


def test_secrets_are_compared_and_not_shown() -> None:
    shown = Shown("vpn/ipsec-site-connections", "ipsec_site_connections")
    result = compared({shown.path: [{"id": "v", "psk": "one"}]}, {shown.path: [{"id": "v", "psk": "two"}]}, shown)
    assert [(one.attribute, one.theirs, one.ours) for one in result.differences] == [("psk", "***", "***")]


def test_the_report() -> None:
    result = compared({"ports": ports(*range(30))}, {"ports": []})
    text = result.to_text()
    assert text.startswith("as administrator: 30 objects in 1 collections compared\n  ports p0: object")
    assert "and 10 more: --report FILE has all" in text
    assert text.endswith("30 differences\n")
    (written,) = json.loads(to_json([result]))
    assert (written["counts"], len(written["differences"])) == ({"ports": 30}, 30)
