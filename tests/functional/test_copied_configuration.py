"""The configuration files of a Neutron host, given to the server and the agent as they are, before a file of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import requests

from tests.support.agent import Agent
from tests.support.neutrino import Neutrino, configuration
from tests.support.neutron_options import AGENT_FILES, SERVER_FILES, write_samples
from tests.support.openvswitch import OpenVSwitch
from tests.support.ports import free_port
from tests.support.process import wait_until

WITHOUT_EFFECT = "options of Neutron without effect here: [DEFAULT] "
UNKNOWN = "does not know, without effect"


class NeutronsServer(Neutrino):
    def __init__(self, samples: Path) -> None:
        more = {
            "DEFAULT": {
                "core_plugin": "neutron.plugins.ml2.plugin.Ml2Plugin",
                "service_plugins": "neutron.services.l3_router.l3_router_plugin.L3RouterPlugin,tag,timestamp",
                "bind_hots": "a typo",
            },
            "ml2": {"mechanism_drivers": "openvswitch", "tenant_network_types": "vlan"},
            "feed": {"run": True},
        }
        super().__init__(more, workers=2)
        self.samples = write_samples(samples, SERVER_FILES)

    @property
    def command(self) -> Sequence[str | Path]:
        files = [argument for file in self.samples for argument in ("--config-file", file)]
        return [self.program, "server", *files, "--config-file", self.config]


class NeutronsAgent(Agent):
    samples: Sequence[str] = ()

    def start(self) -> None:
        files = [argument for file in self.samples for argument in ("--config-file", file)]
        self.spawn(
            [self.server.program, "agent", *files, "--config-file", self.config],
            ready=lambda: "the dataplane is up" in self.log and self.is_alive(),
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NeutronsServer]:
    with NeutronsServer(tmp_path_factory.mktemp("neutron")) as running:
        yield running


def test_the_server_runs_with_neutrons_files_and_logs_each_finding_once(server: NeutronsServer) -> None:
    network = {"network": {"name": "blue"}}
    made = requests.post(f"{server.url}/v2.0/networks", json=network, timeout=10).json()["network"]
    assert made["provider:network_type"] == "vlan"
    for text in (
        "[DEFAULT] core_plugin: neutron.plugins.ml2.plugin.Ml2Plugin as ml2",
        "L3RouterPlugin as router",
        "tag is included",
        WITHOUT_EFFECT,
        "rpc_state_report_workers",
        "[privsep] ",
        f"options that the server {UNKNOWN}: [DEFAULT] bind_hots (did you mean bind_host?)\n",
        "options that only the agent reads: ",
    ):
        assert server.log.count(text) == 1, text
    assert requests.get(f"{server.url}/v2.0/routers", timeout=10).json() == {"routers": []}


def test_a_hangup_logs_the_values_of_all_options_at_debug(server: NeutronsServer) -> None:
    settings = {**server.settings, "DEFAULT": {**server.settings["DEFAULT"], "debug": True}}
    password = {"connection": server.database, "max_pool_size": 7}
    server.config.write_text(configuration({**settings, "database": password}))
    os.kill(server.pids[0], signal.SIGHUP)
    logged = "DEBUG neutrino.cli.workers database.max_pool_size         = 7"
    wait_until(lambda: logged in server.log, timeout=60, what="the options", failed=lambda: None)
    assert "database.connection            = ****" in server.log  # a secret
    assert server.log.count(WITHOUT_EFFECT) == 2  # of the start, and of the files that are loaded now


def test_the_agent_runs_with_neutrons_files(server: NeutronsServer, tmp_path: Path) -> None:
    with OpenVSwitch() as switch:
        switch.vsctl("add-br", "br-phys", "--", "set", "bridge", "br-phys", "datapath_type=dummy")
        more = {
            "DEFAULT": {"roles": "l2", "report_intervall": 3},
            "securitygroup": {"firewall_driver": "neutron.agent.linux.openvswitch_firewall.OVSFirewallDriver"},
            "AGENT": {"availability_zone": "zone-1"},
        }
        agent = NeutronsAgent(server, switch, "h1", more)
        agent.samples = write_samples(tmp_path, AGENT_FILES)
        with agent:
            for text in (
                WITHOUT_EFFECT,
                "[agent] check_child_processes_interval (the exit of a daemon is noticed at once)",
                "openvswitch_firewall.OVSFirewallDriver as openvswitch",
                "options that only the server reads: ",
                f"options that the agent {UNKNOWN}: [DEFAULT] report_intervall",
            ):
                assert agent.log.count(text) == 1, text


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "server",
            "[DEFAULT] ipam_driver = mine is refused: addresses are allocated by the server itself",
        ),
        (
            "agent",
            "[ovs] use_veth_interconnection = true is refused: bridges are connected by patch ports, which cost less",
        ),
    ],
)
def test_what_asks_for_a_missing_function_refuses_the_start(
    command: str, message: str, server: NeutronsServer, tmp_path: Path
) -> None:
    file = tmp_path / "own.conf"
    file.write_text(
        f"[DEFAULT]\nauth_strategy = noauth\nbind_port = {free_port()}\nstate_path = {tmp_path}\n"
        "ipam_driver = mine\n"
        f"[ovs]\nuse_veth_interconnection = true\n"
        f"[feed]\nserver = unix:{server.directory}/feed.sock\ncredential_file = {file}\n"
    )
    arguments = [server.program, command, "--config-file", file]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"neutrino: {message}\n")
