"""Rendered commands and configuration of a lab, and the checks before it starts; nothing is executed."""

from dataclasses import replace
from pathlib import Path

import pytest

from neutrino.cli import preflight
from neutrino.cli.errors import CommandError
from neutrino.lab.errors import LabError
from neutrino.lab.hosts import processes
from neutrino.lab.hosts.ovs import render_bridges
from neutrino.lab.instances.addressing import render_static
from neutrino.lab.instances.plug import Vm, render_devices, render_ports, render_removal
from neutrino.lab.settings import (
    MAX_HOSTS,
    UPLINKS,
    LabPaths,
    LabSettings,
    bridge_mac,
    check,
    check_vm_name,
    render_agent,
)
from tests.support.ports import free_port

VM = Vm(
    name="vm1",
    host="h1",
    port_id="abcdefab-cdef-0000-0000-000000000000",
    device_id="11111111-2222-3333-4444-555555555555",
    mac="fa:16:3e:0:0:1",
    mtu=1450,
)


def subnet(key: str, cidr: str, gateway: str | None, *routes: tuple[str, str]) -> dict[str, object]:
    host_routes = [{"destination": destination, "nexthop": nexthop} for destination, nexthop in routes]
    return {"id": key, "cidr": cidr, "gateway_ip": gateway, "host_routes": host_routes}


def test_a_port_gives_addresses_and_a_default_route_of_each_version() -> None:
    port = {"fixed_ips": [{"subnet_id": "4", "ip_address": "10.0.0.5"}, {"subnet_id": "6", "ip_address": "fd00::5"}]}
    assert render_static(port, [subnet("4", "10.0.0.0/24", "10.0.0.1"), subnet("6", "fd00::/64", "fe80::1")]) == [
        "address flush dev eth0 scope global",
        "address add 10.0.0.5/24 dev eth0",
        "address add fd00::5/64 dev eth0 nodad",
        "route replace 0.0.0.0/0 via 10.0.0.1 dev eth0 onlink",
        "route replace ::/0 via fe80::1 dev eth0 onlink",
    ]


def test_a_host_route_may_be_the_default_one_and_the_first_subnet_counts() -> None:
    port = {"fixed_ips": [{"subnet_id": "a", "ip_address": "10.0.0.5"}, {"subnet_id": "b", "ip_address": "10.1.0.5"}]}
    lines = render_static(
        port,
        [
            subnet("a", "10.0.0.0/24", None, ("0.0.0.0/0", "10.0.0.9"), ("192.0.2.0/24", "10.0.0.8")),
            subnet("b", "10.1.0.0/24", "10.1.0.1", ("192.0.2.0/24", "10.1.0.8")),
        ],
    )
    assert lines[3:] == [
        "route replace 0.0.0.0/0 via 10.0.0.9 dev eth0 onlink",
        "route replace 192.0.2.0/24 via 10.0.0.8 dev eth0 onlink",
    ]


def test_a_gateway_address_of_the_vm_itself_gives_no_route() -> None:
    port = {"fixed_ips": [{"subnet_id": "4", "ip_address": "10.0.0.1"}]}
    assert not [line for line in render_static(port, [subnet("4", "10.0.0.0/24", "10.0.0.1")]) if "route" in line]


def test_devices_have_the_names_that_nova_gives_them() -> None:
    assert (VM.tap, VM.switch_device, VM.namespace) == ("tapabcdefab-cd", "tapabcdefab-cd", "vm-vm1")
    hybrid = replace(VM, hybrid=True)
    assert (hybrid.switch_device, hybrid.bridge) == ("qvoabcdefab-cd", "qbrabcdefab-cd")
    assert "qvoabcdefab-cd" in render_ports([hybrid])
    assert "external_ids:iface-id=abcdefab-cdef-0000-0000-000000000000" in render_ports([hybrid])
    assert f"link set {hybrid.tap} master {hybrid.bridge}" in render_devices(hybrid)
    assert len(VM.tap) < 16  # the most that the kernel takes


def test_only_existing_devices_are_deleted() -> None:
    assert render_removal(VM, frozenset({"lo"})) == []
    assert render_removal(VM, frozenset({"lo", "tapabcdefab-cd"})) == ["link delete tapabcdefab-cd"]


@pytest.mark.parametrize("name", ["", "h1", "external", "../lab", "a b", "-a", "x" * 61])
def test_invalid_vm_names(name: str) -> None:
    with pytest.raises(LabError):
        check_vm_name(name)


@pytest.mark.parametrize(
    "settings, option",
    [
        (LabSettings(hosts=0), "--hosts"),
        (LabSettings(hosts=MAX_HOSTS + 1), "--hosts"),
        (LabSettings(port=0), "--port"),
        (LabSettings(mtu=1000), "--mtu"),
        (LabSettings(datapath="dummy"), "--datapath"),
        (LabSettings(central=0), "--central"),
        (LabSettings(server_config_files=("/nowhere.conf",)), "/nowhere.conf"),
    ],
)
def test_invalid_settings_are_refused_with_the_name_of_the_option(settings: LabSettings, option: str) -> None:
    with pytest.raises(LabError, match=option):
        check(settings)


@pytest.mark.parametrize("datapath", ["system", "netdev"])
def test_the_datapath_is_the_same_for_every_bridge_and_the_agent(datapath: str) -> None:
    settings = LabSettings(datapath=datapath)
    bridges = [part for part in render_bridges("h1", datapath) if part.startswith("datapath_type=")]
    assert bridges == [f"datapath_type={datapath}"] * len(UPLINKS)
    assert f"datapath_type = {datapath}\n" in render_agent(settings, LabPaths(Path("/lab")), "h1")


def test_the_l3_agents_of_the_first_hosts_are_central() -> None:
    def modes(settings: LabSettings) -> list[str]:
        rendered = (render_agent(settings, LabPaths(Path("/lab")), host) for host in settings.host_names)
        return [line for text in rendered for line in text.splitlines() if line.startswith("agent_mode")]

    assert modes(LabSettings()) == ["agent_mode = dvr_snat", "agent_mode = dvr_snat", "agent_mode = dvr"]
    assert modes(LabSettings(hosts=2, central=1)) == ["agent_mode = dvr_snat", "agent_mode = dvr"]


def test_a_kernel_without_the_datapath_is_refused_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []

    def missing(module: str) -> str:
        requested.append(module)
        return "modprobe: FATAL: Module openvswitch not found"

    monkeypatch.setattr(preflight, "load_module", missing)
    with pytest.raises(CommandError) as refused:
        preflight.check_lab(free_port(), "system")
    assert str(refused.value) == (
        "--datapath system: this kernel has no module openvswitch (modprobe: FATAL: Module openvswitch not found); "
        "use --datapath netdev, the userspace datapath"
    )
    preflight.check_lab(free_port(), "netdev")
    assert requested == ["openvswitch"]


def test_each_host_has_its_own_mac_address_on_each_uplink() -> None:
    names = LabSettings(hosts=MAX_HOSTS).host_names
    assert (
        len({bridge_mac(host, uplink) for host in names for uplink in ("underlay", "provider", "external")}) == 3 * 64
    )


def test_without_privileges_a_command_is_refused(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tneutrino\nCapEff:\t0000000000000000\n")
    with pytest.raises(CommandError, match="root"):
        preflight.check_privileges("neutrino lab", str(status))


def test_a_missing_program_is_named_with_its_package() -> None:
    with pytest.raises(CommandError) as refused:
        preflight.check_programs({"ip": "iproute2", "no-such-one": "some-package", "no-such-two": "another"})
    assert str(refused.value) == "no-such-one, no-such-two not found: apt-get install another some-package"


def test_a_process_outside_any_lab_is_no_member(tmp_path: Path) -> None:
    assert not processes.read_members(tmp_path)
