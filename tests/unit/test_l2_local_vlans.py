"""Local VLANs: kept over restarts, released, exhausted."""

from neutrino.agent.l2.desired import HostState, L2Options, Plugged, resolve, wanted_segments
from neutrino.agent.l2.local_vlans import VLANS, SegmentKey, allocate, merged, restore
from tests.support.l2 import network, port


def key(number: int) -> SegmentKey:
    return SegmentKey(f"net-{number:05}", "vxlan", "", number)


def test_the_lowest_free_vlan_is_allocated():
    assert allocate([key(1), key(2)], {key(2): 1}) == {key(2): 1, key(1): 2}
    assert allocate([key(1)], {}, foreign=[1, 2]) == {key(1): 3}


def test_no_two_networks_share_a_vlan():
    assert sorted(allocate([key(1), key(2)], {key(1): 1, key(2): 1}).values()) == [1, 2]


def test_a_vlan_with_a_new_owner_stays_with_it():
    assert merged({key(2): 1}, {key(1): 1, key(3): 3}) == {key(2): 1, key(3): 3}
    assert merged({key(2): 1}, {key(2): 5}) == {key(2): 1}


def test_other_config_of_a_dead_port_does_not_count():
    assert restore([(4095, key(1).to_config(7)), (7, key(2).to_config(7))]) == {key(2): 7}


def test_an_unwanted_segment_releases_its_vlan():
    assert allocate([key(3)], {key(1): 1, key(2): 2}) == {key(3): 1}


def test_the_allocation_does_not_depend_on_the_order():
    keys = [key(number) for number in range(20)]
    assert allocate(keys, {}) == allocate(reversed(keys), {})


def test_held_vlans_are_kept():
    held = allocate([key(5), key(6)], {})
    assert allocate([key(number) for number in range(10)], held).items() >= held.items()


def test_exhausted_vlans():
    keys = [key(number) for number in range(1, len(VLANS) + 3)]
    allocated = allocate(keys, {})
    assert sorted(allocated.values()) == [*VLANS]
    assert keys[-2:] == [key for key in keys if key not in allocated]
    # Segments that hold a VLAN keep it, whichever others are new.
    late = key(0)
    assert late not in allocate([late, *allocated], allocated)


def test_vlans_are_restored_from_ports():
    ports = [(7, key(1).to_config(7)), (None, {}), (9, key(2).to_config(9)), (4095, {"tag": "4095"})]
    assert restore(ports) == {key(1): 7, key(2): 9}


def test_a_tag_changed_by_hand_does_not_move_the_network():
    assert restore([(99, key(1).to_config(7))]) == {key(1): 7}


def test_the_majority_of_ports_decides():
    ports = [(7, key(1).to_config(7)), (7, key(1).to_config(7)), (8, key(1).to_config(8)), (7, key(2).to_config(7))]
    assert restore(ports) == {key(1): 7}


def test_records_of_other_agents_are_read():
    config = {"net_uuid": "n", "network_type": "flat", "physical_network": "physnet1", "segmentation_id": "None"}
    assert restore([(3, config)]) == {SegmentKey("n", "flat", "physnet1", 0): 3}
    assert restore(
        [(3, {"net_uuid": "n", "network_type": "vxlan", "physical_network": "None", "segmentation_id": "8"})]
    ) == {SegmentKey("n", "vxlan", "", 8): 3}


def test_a_port_without_a_vlan_fails_and_the_others_work():
    state = HostState(
        networks={"a": network("a", "vxlan", 1), "b": network("b", "vxlan", 2)},
        ports={"p1": port("p1", 1, "a"), "p2": port("p2", 2, "b")},
    )
    plugged = Plugged(ports={"p1": 10, "p2": 11}, patch_tun=2, patch_int=1)
    wanted = wanted_segments(state, plugged)
    allocation = allocate(wanted, {}, foreign=range(2, VLANS[-1] + 1))
    desired = resolve(state, plugged, allocation, L2Options())
    assert [entry.id for entry in desired.ports] == ["p1"]
    assert desired.problems == {"p2": "no local VLAN is left for its network"}
    assert desired.dead == (11,)


def test_reasons_why_ports_are_not_wired():
    nets = {
        "far": network("far", "vlan", 5, "physnet9"),
        "tunnel": network("tunnel"),
        "local": network("local", "local", 0),
    }
    ports = {
        "p1": port("p1", 1, "far"),
        "p2": port("p2", 2, "tunnel"),
        "p3": port("p3", 3, "local", active=False),
        "p4": port("p4", 4, "none"),
        "p5": port("p5", 5, "local"),
    }
    state = HostState(networks=nets, ports=ports)
    plugged = Plugged(ports={name: number for number, name in enumerate(ports, 10)})
    desired = resolve(state, plugged, allocate(wanted_segments(state, plugged), {}), L2Options())
    assert desired.problems == {
        "p1": "no bridge is mapped to physical network physnet9",
        "p2": "this host has no tunnels for vxlan networks",
        "p3": "its binding to this host is not active",
        "p4": "its segment is not known here",
    }
