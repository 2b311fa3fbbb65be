"""Rendering of dnsmasq's command line, host, option and lease files."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.dnsmasq_files import MAX_ROUTE_BYTES, render_option
from neutrino.agent.dhcp.extension_api import MAX_LINE_BYTES, Line
from neutrino.agent.dhcp.leases import render_leases
from neutrino.agent.dhcp.network import ServedNetwork, serves_metadata
from neutrino.agent.dhcp.render import DesiredDhcp, render
from neutrino.model.dhcp import DhcpPort, DnsName
from neutrino.model.state import Subnet
from tests.support.dhcp import NETWORK, dhcp_port, network, option, port, settings, subnet, uuid


def render_command(this: ServedNetwork, given: DhcpSettings) -> tuple[str, ...]:
    return render(this, given).daemon.argv


def render_host(this: ServedNetwork, given: DhcpSettings) -> str:
    return render(this, given).files["host"]


def render_addn_hosts(this: ServedNetwork, given: DhcpSettings) -> str:
    return render(this, given).files["addn_hosts"]


def render_opts(this: ServedNetwork, given: DhcpSettings) -> str:
    return render(this, given).files["opts"]


V4 = subnet(1)
OTHER = subnet(2, "10.0.1.0/24")
PLAIN = subnet(3, "10.0.2.0/24", enable_dhcp=False)
STATEFUL = subnet(4, "2001:db8:4::/64", ipv6_ra_mode="dhcpv6-stateful", ipv6_address_mode="dhcpv6-stateful")
STATELESS = subnet(5, "2001:db8:5::/64", ipv6_ra_mode="dhcpv6-stateless", ipv6_address_mode="dhcpv6-stateless")
SLAAC = subnet(6, "2001:db8:6::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
OWN = dhcp_port(0xD1, "10.0.0.2", on=(V4,))
VM = port(1, "10.0.0.11", on=(V4,))


def lines(text: str) -> list[str]:
    return text.splitlines()


# --- the command ------------------------------------------------------------------------------------------------------


def ranges(*subnets: Subnet, **more: Any) -> list[str]:
    command = render_command(network(subnets, OWN), settings(**more))
    return [word.removeprefix("--dhcp-range=") for word in command if word.startswith("--dhcp-range=")]


def test_the_command_names_the_files_where_neutron_has_them() -> None:
    command = render_command(network((V4,), OWN, mtu=1450), settings())
    where = f"/state/dhcp/{NETWORK}"
    assert command[0] == "dnsmasq"
    for word in (
        "--no-hosts",
        "--no-resolv",
        f"--pid-file={where}/pid",
        f"--dhcp-hostsfile={where}/host",
        f"--addn-hosts={where}/addn_hosts",
        f"--dhcp-optsfile={where}/opts",
        f"--dhcp-leasefile={where}/leases",
        "--except-interface=lo",
        "--bind-interfaces",
        "--interface=tap000000d1-00",
        "--keep-in-foreground",
        "--dhcp-option-force=option:mtu,1450",
        "--dhcp-lease-max=256",
        "--domain=example.org",
        "--conf-file=/dev/null",
    ):
        assert word in command


def test_ranges() -> None:
    tag = f"set:subnet-{V4.id}"
    assert ranges(V4) == [f"{tag},10.0.0.0,static,255.255.255.0,86400s"]
    assert ranges(V4, dhcp_lease_duration=-1) == [f"{tag},10.0.0.0,static,255.255.255.0,infinite"]
    assert ranges(STATEFUL, STATELESS) == [
        f"set:subnet-{STATEFUL.id},2001:db8:4::,static,64,86400s",
        f"set:subnet-{STATELESS.id},2001:db8:5::,static,64,86400s",
    ]
    assert ranges(SLAAC, PLAIN, subnet(7, "2001:db8::/48")) == []
    assert len(ranges(subnet(8, "2001:db8:8::/64"))) == 1, "IPv6 without modes is served as stateful"


@pytest.mark.parametrize(
    "given, words, absent",
    [
        ({"dnsmasq_local_resolv": True}, [], ["--no-resolv"]),
        (
            {"dnsmasq_local_resolv": True, "dnsmasq_dns_servers": ("192.0.2.1", "192.0.2.2")},
            ["--no-resolv", "--strict-order", "--server=192.0.2.1", "--server=192.0.2.2"],
            [],
        ),
        ({"dnsmasq_lease_max": 10}, ["--dhcp-lease-max=10"], []),
        ({"dhcp_renewal_time": 60}, ["--dhcp-option-force=option:T1,60s"], []),
        ({"dhcp_rebinding_time": 90}, ["--dhcp-option-force=option:T2,90s"], []),
        ({"dhcp_broadcast_reply": True}, ["--dhcp-broadcast"], []),
        ({"dnsmasq_config_file": "/etc/dns.conf"}, ["--conf-file=/etc/dns.conf"], ["--conf-file=/dev/null"]),
        (
            {"dnsmasq_base_log_dir": "/log"},
            ["--log-queries", "--log-dhcp", f"--log-facility=/log/{NETWORK}/dhcp_dns_log"],
            [],
        ),
        ({"dns_domain": ""}, [], ["--domain="]),
    ],
)
def test_options_of_the_operator(given: dict[str, Any], words: list[str], absent: list[str]) -> None:
    command = render_command(network((V4,), OWN), settings(**given))
    assert [w for w in words if w not in command] == []
    assert [w for w in absent if w in command] == []


def test_the_order_of_servers_is_kept() -> None:
    given = ("192.0.2.9", "192.0.2.1", "192.0.2.5")
    command = render_command(network((V4,), OWN), settings(dnsmasq_dns_servers=given))
    assert [w.removeprefix("--server=") for w in command if w.startswith("--server=")] == list(given)


# --- hosts ------------------------------------------------------------------------------------------------------------


def test_leases_and_names() -> None:
    this = network((V4, PLAIN), OWN, VM, port(2, "10.0.2.12", on=(PLAIN,)))
    assert lines(render_host(this, settings())) == ["fa:16:3e:00:00:01,vm1.example.org,10.0.0.11"]
    assert lines(render_addn_hosts(this, settings())) == [
        "10.0.0.11\tvm1.example.org vm1",
        "10.0.2.12\tvm2.example.org vm2",
    ]


def test_a_port_without_a_name_is_called_after_its_address() -> None:
    this = network((V4,), OWN, port(1, "10.0.0.11", on=(V4,), names=()))
    assert lines(render_host(this, settings())) == ["fa:16:3e:00:00:01,host-10-0-0-11.example.org,10.0.0.11"]
    assert lines(render_host(this, settings(dns_domain=""))) == ["fa:16:3e:00:00:01,host-10-0-0-11,10.0.0.11"]


@pytest.mark.parametrize(
    ("hostname", "fqdn", "line"),
    [
        ("www", "www.google.com.", "www.example.org www"),
        ("www.google.com", "www.google.com.example.org.", "www.google.com.example.org www"),
        ("www", "www.badexample.org.", "www.example.org www"),
        ("a", "a.b.example.org.", "a.b.example.org a"),
        ("web", "web.Example.ORG.", "web.Example.ORG web"),
    ],
)
def test_no_name_is_outside_the_domain(hostname: str, fqdn: str, line: str) -> None:
    this = network((V4,), OWN, port(1, "10.0.0.11", on=(V4,), names=(DnsName("10.0.0.11", hostname, fqdn),)))
    assert lines(render_addn_hosts(this, settings())) == [f"10.0.0.11\t{line}"]
    label = hostname.partition(".")[0]
    assert lines(render_addn_hosts(this, settings(dns_domain=""))) == [f"10.0.0.11\t{label} {label}"]


@pytest.mark.parametrize("owner", ["network:dhcp", "network:floatingip", "network:router_ha_interface"])
def test_the_services_own_ports_have_no_entry(owner: str) -> None:
    assert render_host(network((V4,), OWN, port(1, "10.0.0.11", on=(V4,), device_owner=owner)), settings()) == ""


def test_a_routers_interface_has_a_name() -> None:
    router = port(1, "10.0.0.1", on=(V4,), device_owner="network:router_interface")
    assert "10.0.0.1\tvm1.example.org vm1" in lines(render_addn_hosts(network((V4,), OWN, router), settings()))


def test_options_and_client_id_in_the_entry() -> None:
    tag = f"set:port-{uuid(1)}"

    def host(*options: Any) -> str:
        return render_host(network((V4,), OWN, port(1, "10.0.0.11", on=(V4,), options=options)), settings()).strip()

    assert host(option("bootfile-name", "x")) == f"fa:16:3e:00:00:01,vm1.example.org,10.0.0.11,{tag}"
    assert host(option("client-id", "01:02")) == "fa:16:3e:00:00:01,id:01:02,vm1.example.org,10.0.0.11"
    assert host(option("61", "01:02"), option("tftp-server", "y")) == (
        f"fa:16:3e:00:00:01,id:01:02,vm1.example.org,10.0.0.11,{tag}"
    )


def test_a_mac_selects_before_a_client_id() -> None:
    """dnsmasq takes lines whose tag matches first, and among lines without a tag those with the client's id."""
    stolen = (option("client-id", "01:fa:16:3e:00:00:02"),)
    attacker = port(1, "10.0.0.11", "2001:db8:4::11", on=(V4, STATEFUL), options=stolen)
    victims = (
        port(2, "10.0.0.12", "2001:db8:4::12", on=(V4, STATEFUL)),
        port(3, "10.0.0.13", "2001:db8:5::13", on=(V4, STATELESS)),
    )
    subnets = V4, STATEFUL, STATELESS
    assert lines(render_host(network(subnets, OWN, attacker, *victims), settings())) == [
        "fa:16:3e:00:00:01,id:01:fa:16:3e:00:00:02,vm1.example.org,10.0.0.11",
        "fa:16:3e:00:00:01,tag:dhcpv6,vm1.example.org,[2001:db8:4::11]",
        "fa:16:3e:00:00:02,tag:!dhcpv6,vm2.example.org,10.0.0.12",
        "fa:16:3e:00:00:02,tag:dhcpv6,vm2.example.org,[2001:db8:4::12]",
        "fa:16:3e:00:00:03,tag:dhcpv6",
        "fa:16:3e:00:00:03,tag:!dhcpv6,vm3.example.org,10.0.0.13",
    ]


def test_both_families() -> None:
    vm = port(1, "10.0.0.11", "2001:db8:4::11", "2001:db8:6::11", on=(V4, STATEFUL, SLAAC))
    assert lines(render_host(network((V4, STATEFUL, SLAAC), OWN, vm), settings())) == [
        "fa:16:3e:00:00:01,vm1.example.org,10.0.0.11",
        "fa:16:3e:00:00:01,tag:dhcpv6,vm1.example.org,[2001:db8:4::11]",
    ]


def test_a_stateless_entry_gives_way_to_the_one_with_an_address() -> None:
    vm = port(1, "10.0.0.11", "2001:db8:5::11", on=(V4, STATELESS), options=(option("domain-search", "a", 6),))
    assert lines(render_host(network((V4, STATELESS), OWN, vm), settings())) == [
        f"fa:16:3e:00:00:01,tag:dhcpv6,set:port-{uuid(1)}",
        f"fa:16:3e:00:00:01,vm1.example.org,10.0.0.11,set:port-{uuid(1)}",
    ]


def test_several_addresses_of_a_stateful_subnet() -> None:
    vm = port(1, "2001:db8:4::11", "2001:db8:4::12", on=(STATEFUL, STATEFUL))
    this = network((STATEFUL,), OWN, vm)
    assert len(lines(render_host(this, settings()))) == 2
    assert lines(render_host(this, settings(dnsmasq_enable_addr6_list=True))) == [
        "fa:16:3e:00:00:01,tag:dhcpv6,vm1.example.org,[2001:db8:4::11],[2001:db8:4::12]"
    ]


def test_what_users_write_stays_in_its_line() -> None:
    evil = (option("client-id", "01\nfa:16:3e:00:00:99,10.0.0.99"), option("mtu\ny", "a\nb"))
    this = network((V4,), OWN, port(1, "10.0.0.11", on=(V4,), options=evil))
    assert len(lines(render_host(this, settings()))) == 1
    assert [line for line in lines(render_opts(this, settings())) if "port-" in line] == [
        f"tag:port-{uuid(1)},option:mtu,a"
    ]


# --- the first leases -------------------------------------------------------------------------------------------------


def test_the_leases_to_start_with() -> None:
    vm = port(1, "10.0.0.11", "2001:db8:4::11", on=(V4, STATEFUL))
    existing = (
        "1700 fa:16:3e:00:00:07 10.0.0.7 gone *\n"
        "duid 00:01\n"
        "1700 99 2001:db8:4::11 vm1 00:02\n"
        "1700 98 2001:db8:4::98 gone 00:03\n"
        "nonsense\n"
    )
    assert lines(render_leases(network((V4, STATEFUL), OWN, vm), settings(), existing)) == [
        "0 fa:16:3e:00:00:01 10.0.0.11 * *",
        "duid 00:01",
        "1700 99 2001:db8:4::11 vm1 00:02",
    ]


# --- options ----------------------------------------------------------------------------------------------------------


def opts(subnets: tuple[Subnet, ...], *ports: Any, given: dict[str, Any] | None = None, **more: Any) -> list[str]:
    return lines(render_opts(network(subnets, OWN, *ports, **more), settings(**(given or {}))))


def of(subnet_: Subnet, found: list[str]) -> list[str]:
    prefix = f"tag:subnet-{subnet_.id},"
    return [line.removeprefix(prefix) for line in found if line.startswith(prefix)]


def test_the_gateway() -> None:
    assert of(V4, opts((V4,))) == ["option:router,10.0.0.1"]
    without = subnet(1, gateway_ip=None)
    assert of(without, opts((without,))) == ["option:router"]
    by_route = subnet(1, gateway_ip=None, host_routes=(("0.0.0.0/0", "10.0.0.9"),))
    assert of(by_route, opts((by_route,))) == ["option:router,10.0.0.9"]


def test_name_servers() -> None:
    named = subnet(1, dns_nameservers=("192.0.2.2", "192.0.2.1"))
    assert "option:dns-server,192.0.2.2,192.0.2.1" in of(named, opts((named,)))
    none = subnet(1, dns_nameservers=("0.0.0.0",))
    assert "option:dns-server" in of(none, opts((none,)))
    second = dhcp_port(0xD2, "10.0.0.3", on=(V4,), host="h2")
    assert "option:dns-server,10.0.0.2,10.0.0.3" in of(V4, opts((V4,), second)), "all who serve"
    v6 = subnet(4, "2001:db8:4::/64", dns_nameservers=("2001:db8::53",))
    assert of(v6, opts((v6,))) == ["option6:dns-server,[2001:db8::53]", "option6:domain-search,example.org"]


def test_routes_of_the_subnet_its_neighbours_and_the_default() -> None:
    here = subnet(1, host_routes=(("192.0.2.0/24", "10.0.0.9"),))
    routes = "10.0.1.0/24,0.0.0.0,192.0.2.0/24,10.0.0.9,0.0.0.0/0,10.0.0.1"
    assert of(here, opts((here, OTHER, STATEFUL))) == [
        f"option:classless-static-route,{routes}",
        f"249,{routes}",
        "option:router,10.0.0.1",
    ]


def test_the_route_to_metadata() -> None:
    router = port(9, "10.0.0.1", on=(V4,), device_owner="network:router_interface")
    isolated = {"enable_isolated_metadata": True}

    def metadata(*ports: Any, given: dict[str, Any]) -> str | None:
        found = [line for line in of(V4, opts((V4,), *ports, given=given)) if line.startswith("249,")]
        return found[0].split(",")[2] if found else None

    assert metadata(given={}) is None
    assert metadata(given=isolated) == "10.0.0.2", "by the DHCP port"
    assert metadata(router, given=isolated) == "10.0.0.1", "by the router"
    assert metadata(router, given={"force_metadata": True}) == "10.0.0.2"


def test_who_wants_metadata() -> None:
    router = port(9, "10.0.0.1", on=(V4,), device_owner="network:router_interface")
    plain, routed = network((V4,), OWN), network((V4,), OWN, router)
    isolated, network_ = {"enable_isolated_metadata": True}, {"enable_metadata_network": True}
    assert not serves_metadata(plain, settings())
    assert serves_metadata(plain, settings(**isolated))
    assert not serves_metadata(routed, settings(**isolated))
    assert serves_metadata(routed, settings(force_metadata=True))
    link_local = subnet(7, "169.254.169.240/28", gateway_ip="169.254.169.241")
    gateway = port(9, "169.254.169.241", on=(link_local,), device_owner="network:router_interface")
    own = dhcp_port(0xD1, "169.254.169.242", on=(link_local,))
    assert serves_metadata(network((link_local,), own, gateway), settings(**isolated, **network_))
    assert not serves_metadata(network((link_local,), own, gateway), settings(**isolated))
    assert not serves_metadata(network((V4,)), settings(force_metadata=True)), "no DHCP port of this host"


def test_options_of_ports_by_family() -> None:
    extra = (option("mtu", "1400"), option("domain-search", "a.example", 6), option("150", "192.0.2.9"))
    found = opts((V4,), port(1, "10.0.0.11", on=(V4,), options=extra))
    assert [line for line in found if "port-" in line] == [
        f"tag:port-{uuid(1)},option:mtu,1400",
        f"tag:port-{uuid(1)},150,192.0.2.9",
    ]


def test_options_of_the_network_stand_in_for_the_subnets() -> None:
    extra = (option("dns-server", "192.0.2.99"), option("3", "10.0.0.254"), option("domain-search", "x", 6))
    named = subnet(1, dns_nameservers=("192.0.2.2",))
    found = opts((named, STATEFUL), options=extra)
    assert [line for line in of(named, found) if "route" not in line] == [
        "option:dns-server,192.0.2.99",
        "3,10.0.0.254",
    ]
    assert of(STATEFUL, found) == ["option6:domain-search,x"]


def test_tags_in_names_of_options() -> None:
    assert render_option(4, "port-1", "tag:ipxe,bootfile-name", "http://x") == (
        "tag:port-1,tag:ipxe,option:bootfile-name,http://x"
    )
    assert render_option(4, "port-1", "tag:!ipxe,67", "undionly.kpxe") == "tag:port-1,tag:!ipxe,67,undionly.kpxe"
    assert render_option(6, "port-1", "tag:ipxe6,59", "http://x") == "tag:port-1,tag:ipxe6,option6:59,http://x"


# --- the namespace ----------------------------------------------------------------------------------------------------


def addresses(made: DesiredDhcp) -> set[str]:
    return {each.address for each in made.namespace.addresses}


def test_device_addresses_and_routes() -> None:
    own = dhcp_port(0xD1, "10.0.0.2", "2001:db8:4::2", on=(V4, STATEFUL))
    gated = subnet(4, "2001:db8:4::/64", gateway_ip="fe80::1")
    made = render(network((V4, gated), own, mtu=1450), settings())
    assert made.namespace.name == f"qdhcp-{NETWORK}"
    (plug,), (_, device) = made.namespace.plugs, made.namespace.devices
    assert (made.device, plug.name, plug.internal) == ("tap000000d1-00", "tap000000d1-00", True)
    assert (plug.mac, device.name, device.mtu) == (own.mac_address, made.device, 1450)
    assert addresses(made) == {"10.0.0.2/24", "2001:db8:4::2/64"}
    assert {(r.destination, r.via, r.onlink) for r in made.namespace.routes} == {
        ("0.0.0.0/0", "10.0.0.1", False),
        ("::/0", "fe80::1", False),
    }


def test_veth_pairs_have_two_names() -> None:
    made = render(network((V4,), OWN), settings(use_veth=True))
    (plug,) = made.namespace.plugs
    assert (made.device, plug.name, plug.internal) == ("ns-000000d1-00", "tap000000d1-00", False)


def test_a_gateway_outside_the_subnet_is_on_link() -> None:
    outside = subnet(1, gateway_ip="192.0.2.1")
    made = render(network((outside,), OWN), settings())
    assert {(r.via, r.onlink) for r in made.namespace.routes} == {("192.0.2.1", True)}


def test_metadatas_addresses() -> None:
    made = render(network((V4, STATEFUL), OWN), settings(enable_isolated_metadata=True))
    assert addresses(made) == {"10.0.0.2/24", "169.254.169.254/32", "fe80::a9fe:a9fe/128"}


def test_the_gateways_addresses_in_place_of_its_own() -> None:
    made = render(network((V4,), OWN), settings(use_gateway_ips=True))
    assert addresses(made) == {"10.0.0.1/24"}
    assert made.namespace.routes == frozenset()


# --- lines ------------------------------------------------------------------------------------------------------------

EMOJI = "\U0001f600"


def test_a_line_that_dnsmasq_would_read_as_two_is_left_out() -> None:
    """In characters it is short; dnsmasq counts bytes, and the tail would be an option for everybody."""
    tail = "option:dns-server,192.0.2.66"
    value = EMOJI * 240 + tail
    assert len(value) > 255
    bad = port(1, "10.0.0.11", on=(V4,), options=(option("252", value), option("mtu", "1400")))
    identity = port(2, "10.0.0.12", on=(V4,), options=(option("client-id", EMOJI * 250),))
    good = port(3, "10.0.0.13", on=(V4,))
    made = render(network((V4,), OWN, bad, identity, good), settings())
    assert "192.0.2.66" not in made.files["opts"]
    assert f"tag:port-{bad.id},option:mtu,1400" in lines(made.files["opts"]), "the port's other options are there"
    assert [line.split(",")[0] for line in lines(made.files["host"])] == [bad.mac_address, good.mac_address]
    reason = "it has characters that are not printable ASCII"
    assert set(made.problems) == {
        f"port {bad.id}: a line of opts is left out: {reason}",
        f"port {identity.id}: a line of host is left out: {reason}",
    }
    for text in made.files.values():
        assert all(len(line.encode()) <= MAX_LINE_BYTES for line in lines(text))


def test_a_line_has_a_most_bytes() -> None:
    fits, too_long = Line("a" * MAX_LINE_BYTES, "port 1"), Line("b" * (MAX_LINE_BYTES + 1), "port 2")
    assert (fits.fault, too_long.fault) == ("", "it has 1024 bytes, and dnsmasq reads 1023")


def test_only_as_many_routes_to_other_subnets_as_fit_into_the_option() -> None:
    many = [subnet(0x100 + number, f"10.1.{number}.0/24") for number in range(60)]
    first = subnet(1, host_routes=tuple((f"192.0.2.{number}/32", "10.0.0.9") for number in range(10)))
    this = network((first, *many), OWN)
    rendered = render_opts(this, settings(enable_isolated_metadata=True))
    (line,) = [each for each in lines(rendered) if f"subnet-{first.id},option:classless-static-route" in each]
    routes = line.split(",")[2:]
    assert "192.0.2.9/32" in routes
    assert "169.254.169.254/32" in routes
    assert routes[-2:] == ["0.0.0.0/0", "10.0.0.1"]
    # 11 routes of 9 bytes, the default route of 5, and on-link routes of 8.
    assert sum(each.startswith("10.1.") for each in routes) == (MAX_ROUTE_BYTES - 11 * 9 - 5) // 8


def test_an_option_that_dnsmasq_does_not_know_is_left_out() -> None:
    """An older release accepted any name."""
    options = option("no-such", "a"), option("tag:ipxe,nor-this", "b"), option("mtu", "1400"), option("mtu", "1", 6)
    bad = port(1, "10.0.0.11", "2001:db8:4::11", on=(V4, STATEFUL), options=options)
    made = render(network((V4, STATEFUL), OWN, bad, options=(option("unheard-of", "c"),)), settings())
    rendered = [line for line in lines(made.files["opts"]) if "port-" in line]
    assert rendered == [f"tag:port-{bad.id},option:mtu,1400"]
    assert not any(name in made.files["opts"] for name in ("no-such", "nor-this", "unheard-of", "option6:mtu"))
    assert made.problems == (
        f"subnet {V4.id}: a line of opts is left out: dnsmasq has no DHCP option 'unheard-of'",
        f"port {bad.id}: a line of opts is left out: dnsmasq has no DHCP option 'no-such'",
        f"port {bad.id}: a line of opts is left out: dnsmasq has no DHCP option 'nor-this'",
        f"port {bad.id}: a line of opts is left out: dnsmasq has no DHCPv6 option 'mtu'",
    )


def test_a_name_leads_to_one_project() -> None:
    """The server assigns a name to one project of the network; a database of before may have it twice."""

    def named(number: int, project: str, name: str) -> DhcpPort:
        address = f"10.0.0.{number}"
        fqdn = DnsName(address, name, f"{name}.example.org.")
        return port(number, address, on=(V4,), project_id=project, names=(fqdn,))

    this = network(
        (V4,),
        *(OWN, named(11, "a", "web"), named(12, "b", "web"), named(13, "a", "web"), named(14, "b", "Web")),
        *(named(15, "b", "host-10-0-0-16"), named(16, "a", "host-10-0-0-16"), named(17, "b", "web2")),
    )
    assert lines(render_addn_hosts(this, settings())) == [
        "10.0.0.11\tweb.example.org web",
        "10.0.0.12\thost-10-0-0-12.example.org host-10-0-0-12",
        "10.0.0.13\tweb.example.org web",
        "10.0.0.14\thost-10-0-0-14.example.org host-10-0-0-14",
        "10.0.0.15\thost-10-0-0-15.example.org host-10-0-0-15",
        "10.0.0.16\thost-10-0-0-16.example.org host-10-0-0-16",
        "10.0.0.17\tweb2.example.org web2",
    ]
    assert "fa:16:3e:00:00:0c,host-10-0-0-12.example.org,10.0.0.12" in render_host(this, settings())
