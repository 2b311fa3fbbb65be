"""Configuration copied from Neutron: every option and name is read, listed with a reason, or refused by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from oslo_config import cfg

import neutrino
from neutrino import entry_points
from neutrino.agent import config as agent
from neutrino.configuration import findings, neutron_options, neutron_values
from neutrino.errors import RefusedToStart
from neutrino.server import config as server
from neutrino.server.main import assemble, report
from tests.support import configuration_document
from tests.support.neutron_options import (
    AGENT_FILES,
    SERVER_FILES,
    as_in_file,
    library_options,
    ours_by_name,
    write_samples,
)  # fmt: skip
from tests.support.neutron_options import (
    neutron_options as neutrons,
)
from tests.support.options_document import DOCUMENT, document, row

REFUSED = {key for refusals in neutron_options.REFUSALS.values() for key in refusals}
OURS = findings.names_of(server.OPTIONS.items()) | findings.names_of(agent.GROUPS) | library_options()


# --- the tables -------------------------------------------------------------------------------------------------------


def test_the_document_is_up_to_date() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert document() == text, "write it anew: python -m tests.support.options_document"


def test_the_reference_is_up_to_date_and_describes_every_option() -> None:
    text = configuration_document.DOCUMENT.read_text(encoding="utf-8")
    assert configuration_document.document() == text, "write it anew: python -m tests.support.configuration_document"
    assert [key for key, options in ours_by_name().items() if not all(each.help for each in options.values())] == []


def test_options_of_a_missing_function_are_without_effect_and_logged_apart(caplog: pytest.LogCaptureFixture) -> None:
    assert neutron_options.REASONS.keys() >= neutron_options.MISSING
    values = {("database", "slave_connection"): ["x"], ("DEFAULT", "rpc_workers"): ["1"]}
    found = findings.compare(values, (), (), findings.SERVER)
    assert (found.missing.keys(), found.without_effect.keys()) == (
        {("database", "slave_connection")},
        {("DEFAULT", "rpc_workers")},
    )
    findings.log(found, findings.SERVER)
    assert "for what is not here: [database] slave_connection" in caplog.text


def test_every_option_of_neutron_is_classified_once() -> None:
    def places(key: findings.Option) -> int:
        in_tables = (key in OURS, key in neutron_options.REASONS, key in REFUSED)
        return sum(in_tables) or int(key[0] in neutron_options.NOT_NEEDED_SECTIONS)

    assert len(neutrons()) > 600
    assert {key: places(key) for key in neutrons() if places(key) != 1} == {}


def test_an_option_called_the_same_has_neutrons_default() -> None:
    differing = {
        key
        for key, options in ours_by_name().items()
        if key in neutrons()
        for option in options.values()
        if as_in_file(option.default) != (neutrons()[key].default or "")
    }
    assert differing == neutron_options.NOTES.keys() & neutrons().keys() & ours_by_name().keys() - SAME_DEFAULT
    assert all(row(key)[0] == "different" for key in differing)


SAME_DEFAULT: set[findings.Option] = {  # with a note and the same default
    ("DEFAULT", "ha_vrrp_health_check_interval"),
    ("ovs", "resource_provider_bandwidths"),
}


def test_no_option_of_ours_is_called_unneeded_or_refused() -> None:
    assert (neutron_options.REASONS.keys() | REFUSED) & OURS == set()
    assert neutron_options.NOTES.keys() <= OURS


NOTED = {
    "same": """
        DEFAULT: agent_mode availability_zone debug dhcp_confs dhcp_domain dnsmasq_config_file dnsmasq_dns_servers
            enable_isolated_metadata enable_metadata_network enable_metadata_proxy external_network_bridge force_metadata
            gateway_external_network_id ha_confs_path handle_internal_only_routers ipv6_gateway log_dir log_file
            metadata_port metadata_proxy_group metadata_proxy_socket metadata_proxy_user num_sync_threads ra_confs
            syslog_log_facility use_gateway_ips use_syslog
        agent: availability_zone check_child_processes_action dont_fragment drop_flows_on_start
            enable_distributed_routing extensions log_agent_heartbeats quitting_rpc_timeout report_interval tunnel_csum
            tunnel_types vxlan_udp_port
        ml2: overlay_ip_version tenant_network_types type_drivers
        ovs: bridge_mappings datapath_type int_peer_patch_port integration_bridge local_ip tun_peer_patch_port
            tunnel_bridge vhostuser_socket_dir
    """,
    "different": """
        DEFAULT: core_plugin host ovs_use_veth service_plugins state_path
        agent: arp_responder l2_population
        ml2: extension_drivers mechanism_drivers
        securitygroup: firewall_driver
    """,
    "not needed": """
        DEFAULT: metadata_proxy_watch_log resync_interval use_namespaces verbose
        agent: agent_type check_child_processes_interval minimize_polling ovsdb_monitor_respawn_interval
            polling_interval veth_mtu
        ovs: enable_tunneling
    """,
    "refused": """
        DEFAULT: dhcp_driver enable_inat_enat interface_driver
        agent: prevent_arp_spoofing
        ovs: use_veth_interconnection
    """,
}


def noted(text: str) -> set[findings.Option]:
    found, section = set(), ""
    for word in text.split():
        if word.endswith(":"):
            section = word[:-1]
        else:
            found.add((section, word))
    return found


@pytest.mark.parametrize("status", NOTED)
def test_options_that_walkthroughs_of_a_deployment_name_work_or_are_reported_by_name(status: str) -> None:
    keys = noted(NOTED[status])
    assert {key: row(key)[0] for key in keys} == dict.fromkeys(keys, status)
    if status in ("same", "different"):
        assert keys <= OURS


# --- Neutron's own files ----------------------------------------------------------------------------------------------


def test_the_server_loads_neutrons_sample_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = write_samples(tmp_path, SERVER_FILES)
    own = tmp_path / "own.conf"
    own.write_text(f"[DEFAULT]\nauth_strategy = noauth\ncore_plugin = ml2\nstate_path = {tmp_path}\n")
    conf = server.configuration([*files, str(own)])
    server.check_values(conf)
    caplog.set_level("INFO")
    loaded = assemble(conf)
    try:
        findings.report(loaded.conf, findings.SERVER, lambda: agent.GROUPS)
    finally:
        loaded.close()
    lines = [record.message for record in caplog.records if record.name == findings.__name__]
    assert [line.partition(":")[0] for line in lines] == [
        "options of Neutron without effect here",
        "options of Neutron for what is not here",
        "options that only the agent reads",
    ]
    unneeded, missing, elsewhere = lines
    assert "[agent] check_child_processes_interval (the exit of a daemon is noticed at once)" in unneeded
    assert "rpc_state_report_workers" in unneeded
    assert "[ovn] " in unneeded
    assert "[oslo_messaging_kafka] " in missing
    assert "[securitygroup] enable_security_group" in elsewhere
    given, known = conf.given, conf.registered
    result = findings.compare(given, known, findings.names_of(agent.GROUPS), findings.SERVER)
    assert result.unknown == {}
    logged = result.without_effect.keys() | result.missing.keys() | set(result.elsewhere)
    assert given.keys() - known == logged  # nothing is ignored silently


def test_the_agent_loads_neutrons_sample_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = write_samples(tmp_path, AGENT_FILES)
    own = tmp_path / "own.conf"
    own.write_text("[feed]\nserver = unix:/nowhere\ncredential_file = /nowhere\n")
    conf = agent.configuration([*files, str(own)])
    agent.values(conf)
    agent.check(conf)
    caplog.set_level("INFO")
    findings.report(conf, findings.AGENT, lambda: server.OPTIONS.items())
    lines = [record.message for record in caplog.records if record.name == findings.__name__]
    assert [line.partition(":")[0] for line in lines] == [
        "options of Neutron without effect here",
        "options of Neutron for what is not here",
        "options that only the server reads",
    ]
    unneeded, missing, elsewhere = lines
    assert "use_random_fully" in unneeded
    assert "igmp_flood" in missing
    assert "[keystone_authtoken] " in elsewhere
    assert "dhcp_agents_per_network" in elsewhere


# --- values -----------------------------------------------------------------------------------------------------------


def configured(tmp_path: Path, text: str, of_agent: bool = False) -> cfg.ConfigOpts:
    file = tmp_path / "x.conf"
    file.write_text(text)
    return (agent if of_agent else server).configuration([str(file)])


def test_class_paths_and_names_of_neutron_are_read_as_ours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    conf = configured(
        tmp_path,
        "[DEFAULT]\ncore_plugin = neutron.plugins.ml2.plugin.Ml2Plugin\n"
        "service_plugins = neutron.services.l3_router.l3_router_plugin:L3RouterPlugin, tag,timestamp,port_forwarding\n"
        "[ml2]\ntenant_network_types = vlan\nextension_drivers =\n",
    )
    assert (conf.core_plugin, conf.service_plugins) == ("ml2", ["router"])
    assert (conf.ml2.project_network_types, conf.ml2.extension_drivers) == (["vlan"], [])
    findings.report(conf, findings.SERVER)
    assert [record.message for record in caplog.records if record.name == findings.__name__] == [
        "values of Neutron are read as ours: [DEFAULT] core_plugin: neutron.plugins.ml2.plugin.Ml2Plugin as ml2; "
        "[DEFAULT] service_plugins: neutron.services.l3_router.l3_router_plugin:L3RouterPlugin as router; "
        "[DEFAULT] service_plugins: tag is included; [DEFAULT] service_plugins: timestamp is included; "
        "[DEFAULT] service_plugins: port_forwarding is included"
    ]


def test_attributes_that_are_always_there_need_no_extension_driver(tmp_path: Path) -> None:
    """A configuration of Neutron names the drivers of these attributes."""
    conf = configured(tmp_path, "[ml2]\nextension_drivers = port_security,data_plane_status,port_hints,port_trusted\n")
    server.check_values(conf)
    assert conf.ml2.extension_drivers == ["port_security"]


@pytest.mark.parametrize(
    ("driver", "ours"),
    [
        ("neutron.agent.linux.iptables_firewall.OVSHybridIptablesFirewallDriver", "iptables_hybrid"),
        ("neutron.agent.linux.openvswitch_firewall:OVSFirewallDriver", "openvswitch"),
        ("neutron.agent.firewall.NoopFirewallDriver", "noop"),
        ("iptables_hybrid", "iptables_hybrid"),
    ],
)
def test_firewall_drivers(tmp_path: Path, driver: str, ours: str) -> None:
    conf = configured(tmp_path, f"[securitygroup]\nfirewall_driver = {driver}\n", of_agent=True)
    assert conf.securitygroup.firewall_driver == ours


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "[DEFAULT]\nservice_plugins = router,sfc,trunk\n",
            "'sfc' is not supported: service chaining is networking-sfc's",
        ),
        ("[DEFAULT]\nservice_plugins = ovn-router\n", "'ovn-router' is not supported: OVN is another backend"),
        ("[DEFAULT]\ncore_plugin = openvswitch\n", "'openvswitch' is not supported: use ml2"),
        ("[ml2]\nmechanism_drivers = openvswitch,linuxbridge\n", "'linuxbridge' is not supported: Linux bridge is"),
        ("[ml2]\nextension_drivers = port_security,cascading_qos\n", "'cascading_qos' is not supported"),
    ],
)
def test_a_plugin_or_driver_that_is_missing_is_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    conf = configured(tmp_path, text)
    with pytest.raises(cfg.ConfigFileValueError) as refused:
        server.check_values(conf)
    assert reason in str(refused.value)
    assert text.split("\n")[1].split()[0] in str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[securitygroup]\nfirewall_driver = iptables\n", "'iptables' is not supported: it is for Linux bridge"),
        ("[securitygroup]\nfirewall_driver = pf\n", "'pf' is none of openvswitch, iptables_hybrid, noop"),
        ("[agent]\nextensions = dhcp\n", "'dhcp' is not supported: use the role dhcp with dhcp_distributed"),
    ],
)
def test_a_driver_or_extension_that_is_missing_is_refused_by_the_agent(tmp_path: Path, text: str, reason: str) -> None:
    conf = configured(tmp_path, text, of_agent=True)
    with pytest.raises(cfg.ConfigFileValueError) as refused:
        agent.values(conf)
    assert reason in str(refused.value)


def test_an_entry_point_wins_over_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    names = neutron_values.TABLE["DEFAULT", "service_plugins"]
    installed = [EntryPoint(name, "package:Plugin", names.group) for name in ("trunk", "tag")]
    monkeypatch.setattr(entry_points, "of_group", lambda group: installed)
    assert (names.read("trunk"), names.read("tag"), names.read("mine")) == ("trunk", "tag", "mine")


# --- refused, unneeded and unknown options ------------------------------------------------------------------------------


def test_all_refused_options_are_in_one_message(tmp_path: Path) -> None:
    """Each by the program that would need them."""
    conf = configured(
        tmp_path,
        "[DEFAULT]\napi_extensions_path = /x\n"
        "interface_driver = neutron.agent.linux.interface.BridgeInterfaceDriver\n"
        "external_dns_driver =\nipam_driver = mine\n[OVS]\nuse_veth_interconnection = yes\n",
    )
    with pytest.raises(RefusedToStart) as refused:
        findings.refuse(conf, findings.SERVER)
    assert str(refused.value) == (
        "[DEFAULT] api_extensions_path = /x is refused: packages add API resources by the entry point "
        "neutrino.features; [DEFAULT] ipam_driver = mine is refused: addresses are allocated by the server itself"
    )
    with pytest.raises(RefusedToStart) as refused:
        findings.refuse(conf, findings.AGENT)
    assert str(refused.value) == (
        "[DEFAULT] interface_driver = neutron.agent.linux.interface.BridgeInterfaceDriver is refused: "
        "devices are plugged into Open vSwitch; there is no other driver; "
        "[ovs] use_veth_interconnection = yes is refused: bridges are connected by patch ports, which cost less"
    )


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("DEFAULT", "interface_driver = openvswitch"),
        ("DEFAULT", "interface_driver = neutron.agent.linux.interface:OVSInterfaceDriver"),
        ("DEFAULT", "dhcp_driver = neutron.agent.linux.dhcp.Dnsmasq"),
        ("DEFAULT", "ipam_driver = internal"),
        ("DEFAULT", "enable_default_route_bfd = True"),
        ("DEFAULT", "enable_default_route_ecmp = False"),
        ("quotas", "quota_driver = neutron.db.quota.driver.DbQuotaDriver"),
        ("agent", "prevent_arp_spoofing = True"),
        ("ovs", "use_veth_interconnection = False"),
    ],
)
def test_a_value_that_asks_for_what_is_the_case_anyway_is_accepted(tmp_path: Path, section: str, line: str) -> None:
    conf = configured(tmp_path, f"[{section}]\n{line}\n")
    for program in (findings.SERVER, findings.AGENT):
        findings.refuse(conf, program)


@pytest.mark.parametrize(
    ("address", "refusal"),
    [
        ("tcp:127.0.0.1:6640", ""),
        ("unix:/run/db.sock", ""),
        ("punix:/run/db.sock", r"use unix:/path, tcp:127\.0\.0\.1:port or ssl:"),
        ("ssl:127.0.0.1:6640", r"needs \[ovs\] ssl_cert_file, ssl_key_file, ssl_ca_cert_file$"),
        ("ssl:127.0.0.1:6640\nssl_cert_file = /c\nssl_ca_cert_file = /a", r"needs \[ovs\] ssl_key_file$"),
        (
            "ssl:127.0.0.1:6640\nssl_cert_file = /no/c\nssl_ca_cert_file = /a\nssl_key_file = /k",
            r"\[ovs\] ssl_cert_file=/no/c cannot be read: No such file",
        ),
    ],
)
def test_addresses_of_ovsdb(tmp_path: Path, address: str, refusal: str) -> None:
    conf = configured(
        tmp_path,
        f"[ovs]\novsdb_connection = {address}\n[feed]\nserver = unix:/nowhere\ncredential_file = /nowhere\n",
        of_agent=True,
    )
    if not refusal:
        agent.check(conf)
    else:
        with pytest.raises(RefusedToStart, match=refusal):
            agent.check(conf)


@pytest.mark.parametrize(
    ("connection", "url"),
    [
        ("mysql+pymysql://u:p@db/n", "mysql+pymysql://u:p@db/n?ssl_ca=/ca&charset=utf8mb4"),
        (
            "mysql+pymysql://u:p@db/n?read_timeout=5",
            "mysql+pymysql://u:p@db/n?read_timeout=5&ssl_ca=/ca&charset=utf8mb4",
        ),
    ],
)
def test_parameters_are_appended_to_the_connection(tmp_path: Path, connection: str, url: str) -> None:
    parameters = "connection_parameters = ssl_ca=/ca&charset=utf8mb4"
    conf = configured(tmp_path, f"[database]\nconnection = {connection}\n{parameters}\n")
    assert server.database_url(conf) == url


def test_typos_are_reported_with_what_was_probably_meant(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf = configured(
        tmp_path,
        "[DEFAULT]\nbind_hots = ::1\nlog-dir = /tmp\nfoo = 1\nmechanism_drivers = x\n[elsewhere]\nbar = 2\n",
    )
    findings.report(conf, findings.SERVER, lambda: agent.GROUPS)
    assert [record.message for record in caplog.records if record.name == findings.__name__] == [
        "options that the server does not know, without effect: "
        "[DEFAULT] bind_hots (did you mean bind_host?), log-dir (did you mean [DEFAULT] log_dir?), foo, "
        "mechanism_drivers (did you mean [ml2] mechanism_drivers?); [elsewhere] bar"
    ]


def test_a_file_of_ours_is_loaded_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    conf = configured(tmp_path, "[DEFAULT]\nbind_port = 1\n[AGENT]\n[ml2]\ntype_drivers = vxlan,vlan\n")
    findings.report(conf, findings.SERVER, lambda: agent.GROUPS)
    assert [record for record in caplog.records if record.name == findings.__name__] == []


@pytest.mark.parametrize("template", ["lab/server.conf", "lab/agent.conf", "cli/up/agent.conf"])
def test_the_files_that_commands_write_have_only_options_that_are_read(template: str) -> None:
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(Path(neutrino.__file__).parent / template), sections).parse()
    written = {(section, name) for section, options in sections.items() for name in options}
    groups = agent.GROUPS if template.endswith("agent.conf") else server.OPTIONS.items()
    assert len(written) > 5
    assert written - findings.names_of(groups) - library_options() == set()


@pytest.mark.parametrize(
    ("first", "second", "reported"),
    [
        ("mine", "fip_qos,port_forwarding", True),
        ("qos", "fip_qos,port_forwarding", False),
        ("mine", "qos,mine", False),
        ("fdb", "qos", False),
        ("snat_log", "qos", True),
    ],
)
def test_a_list_of_extensions_that_a_later_file_replaces_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: str, second: str, reported: bool
) -> None:
    """Neutron's L2 and L3 agents each have a list of this name. What is included anyway is not lost."""
    files = [tmp_path / "openvswitch_agent.ini", tmp_path / "l3_agent.ini"]
    for file, names in zip(files, (first, second), strict=True):
        file.write_text(f"[agent]\nextensions = {names}\n")
    conf = agent.configuration([str(file) for file in files])
    findings.report(conf, findings.AGENT)
    assert [record.message for record in caplog.records if record.name == findings.__name__] == [
        "[agent] extensions is in several files with different values; the last file is used"
    ] * reported


def test_a_section_of_a_library_that_is_not_used_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf = configured(tmp_path, "[keystone_authtoken]\nauth_url = http://127.0.0.1\n")
    findings.report(conf, findings.SERVER)
    assert [record.message for record in caplog.records if record.name == findings.__name__] == [
        "options of Neutron without effect here: [keystone_authtoken] auth_url (read with auth_strategy = keystone)"
    ]


def test_options_of_libraries_are_known_once_they_are_loaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    credentials = (
        "auth_type = password\nauth_url = http://127.0.0.1:1\nusername = neutron\npassword = secret\n"
        "project_name = service\nuser_domain_name = Default\nproject_domain_name = Default\ncafile = /ca.pem\n"
    )
    conf = configured(
        tmp_path,
        f"[DEFAULT]\nstate_path = {tmp_path}\nservice_plugins = router\n"
        f"[keystone_authtoken]\n{credentials}memcached_servers = 127.0.0.1:11211\nservice_token_roles_required = true\n"
        f"usernam = typo\n[nova]\n{credentials}region_name = one\nregion = typo\n[oslo_policy]\npolicy_file = p.yaml\n"
        "[cors]\nallowed_origin = http://x\n[oslo_middleware]\nenable_proxy_headers_parsing = true\n"
        "[healthcheck]\nbackends = disable_by_file\ndisable_by_file_path = /none\n",
    )
    loaded = assemble(conf)
    caplog.clear()
    try:
        report(loaded, lambda: agent.GROUPS)
    finally:
        loaded.close()
    assert [record.message for record in caplog.records if record.name == findings.__name__] == [
        "options that the server does not know, without effect: "
        "[keystone_authtoken] usernam (did you mean username?); [nova] region"
    ]
