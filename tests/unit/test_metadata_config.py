"""The metadata role's options: the proxy's arguments and settings, and refused values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from neutrino.agent import config
from neutrino.agent.metadata.build import daemon, describe, proxy_settings, read_options, user_and_group
from neutrino.errors import RefusedToStart
from tests.support.metadata import rate_limit


def configuration(tmp_path: Path, text: str = "") -> config.cfg.ConfigOpts:
    path = tmp_path / "agent.conf"
    path.write_text(f"[DEFAULT]\nhost = h1\nstate_path = {tmp_path}/state\n{text}")
    return config.configuration([str(path)])


def test_the_secret_is_in_the_settings_and_never_an_argument(tmp_path: Path) -> None:
    conf = configuration(tmp_path, "metadata_proxy_shared_secret = hush\n")
    settings = proxy_settings(conf)
    assert settings.metadata_proxy_shared_secret == "hush"
    assert "hush" not in repr(settings)
    started = daemon(conf)
    assert "hush" not in " ".join(started.argv)
    assert "hush" not in "".join(started.environment.values())


def test_user_and_group_of_the_process(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        assert user_and_group("", "") == user_and_group("nobody", "")
    assert user_and_group("root", "0") == (0, 0)
    assert user_and_group("0", "root") == (0, 0)
    with pytest.raises(RefusedToStart, match="metadata_proxy_user=no-such-user"):
        user_and_group("no-such-user", "")
    with pytest.raises(RefusedToStart, match="metadata_proxy_group=no-such-group"):
        user_and_group("root", "no-such-group")


def test_the_proxy_logs_beside_the_agent(tmp_path: Path) -> None:
    assert daemon(configuration(tmp_path)).log_file == f"{tmp_path}/state/metadata.log"
    assert daemon(configuration(tmp_path, f"log_dir = {tmp_path}/log\n")).log_file == f"{tmp_path}/log/metadata.log"
    assert (tmp_path / "log").is_dir()


def test_the_proxy_logs_as_the_agent_does(tmp_path: Path) -> None:
    plain, chosen = (daemon(configuration(tmp_path, text)).argv for text in ("", "use_json = true\ndebug = true\n"))
    assert chosen == (*plain, "--log-json", "--debug")


def test_another_user_is_another_daemon(tmp_path: Path) -> None:
    one = daemon(configuration(tmp_path, "metadata_proxy_user = root\n"))
    other = daemon(configuration(tmp_path, "metadata_proxy_user = nobody\n"))
    assert one.digest() != other.digest()
    assert one.digest() == daemon(configuration(tmp_path, "metadata_proxy_user = root\n")).digest()


def test_files_are_read_where_tls_needs_them(tmp_path: Path) -> None:
    missing = "auth_ca_cert = /no/such/file\n"
    assert proxy_settings(configuration(tmp_path, missing)).ca == "", "without TLS it is not needed"
    with pytest.raises(RefusedToStart, match="auth_ca_cert=/no/such/file"):
        proxy_settings(configuration(tmp_path, f"{missing}nova_metadata_protocol = https\n"))
    (tmp_path / "cert.pem").write_text("certificate")
    cert = f"nova_metadata_protocol = https\nnova_client_cert = {tmp_path}/cert.pem\n"
    with pytest.raises(RefusedToStart, match="nova_client_priv_key is not set"):
        proxy_settings(configuration(tmp_path, cert))
    (tmp_path / "key.pem").write_text("key\n")
    settings = proxy_settings(configuration(tmp_path, f"{cert}nova_client_priv_key = {tmp_path}/key.pem\n"))
    assert settings.certificate == "certificate\nkey\n"


def test_limits_count_only_when_they_are_on(tmp_path: Path) -> None:
    limits = "[metadata_rate_limiting]\nip_versions = 4,6\nbase_query_rate_limit = 3\nburst_window_duration = 1\n"
    assert proxy_settings(configuration(tmp_path, limits)).limit.rate_limit_enabled is False
    on = proxy_settings(configuration(tmp_path, f"{limits}rate_limit_enabled = true\n")).limit
    assert on == rate_limit((4, 6), (3, 10), (10, 1))


def test_what_tools_read_of_the_agent(tmp_path: Path) -> None:
    state = describe(configuration(tmp_path))
    assert (state.agent_type, state.binary, state.topic) == ("Metadata agent", "neutron-metadata-agent", "N/A")
    assert state.configurations == {
        "metadata_proxy_socket": f"{tmp_path}/state/metadata_proxy",
        "nova_metadata_host": "127.0.0.1",
        "nova_metadata_port": 8775,
        "log_agent_heartbeats": False,
    }


def test_metadata_and_dhcp_roles_read_the_same_options(tmp_path: Path) -> None:
    text = "enable_isolated_metadata = true\nforce_metadata = true\nenable_metadata_network = true\n"
    options = read_options(configuration(tmp_path, f"{text}dhcp_distributed = true\nmetadata_port = 9000\n"))
    dhcp = options.dhcp
    assert (dhcp.enable_isolated_metadata, dhcp.force_metadata, dhcp.enable_metadata_network) == (True, True, True)
    assert (dhcp.dhcp_distributed, options.metadata_port) == (True, 9000)
    plain = read_options(configuration(tmp_path, "enable_metadata_proxy = false\n"))
    assert (plain.dhcp.force_metadata, plain.dhcp.dhcp_distributed, plain.metadata_port) == (False, False, 0)
