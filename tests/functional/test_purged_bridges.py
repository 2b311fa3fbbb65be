"""What a purge of the agent's package leaves of a real switch: bridges of physical networks forward again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.openvswitch import OpenVSwitch

POSTRM = Path(__file__).parents[2] / "packaging" / "scripts" / "neutrino-agent.postrm"
OURS = "cookie=0x6e74726e00000001,table=0,priority=5,in_port=1,actions=drop"
OPERATORS = "table=0,priority=7,in_port=2,actions=drop"


def bridge(switch: OpenVSwitch, name: str, *flows: str, mark: str = "") -> None:
    ids = ["--", "set", "bridge", name, f"external_ids:neutrino={mark}"] if mark else []
    switch.vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type=dummy", "fail_mode=secure", *ids)
    for flow in flows:
        switch.call("ovs-ofctl", "add-flow", f"unix:{switch.run_directory}/{name}.mgmt", flow)


def flows(switch: OpenVSwitch, name: str) -> list[str]:
    shown = switch.call("ovs-ofctl", "--no-stats", "dump-flows", f"unix:{switch.run_directory}/{name}.mgmt")
    return [line.strip() for line in shown.splitlines() if "actions=" in line]


def purge(switch: OpenVSwitch, directory: Path) -> None:
    """The script, with its paths below a directory."""
    text = POSTRM.read_text()
    for real in (
        "/var/lib/neutrino-agent",
        "/var/log/neutrino-agent",
        "/etc/neutrino",
        "/run/netns",
        "/run/systemd/system",
    ):
        text = text.replace(real, f"{directory}{real}")
    programs = directory / "bin"
    programs.mkdir()
    for name in ("deb-systemd-helper", "sleep"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "OVS_RUNDIR": switch.run_directory}
    subprocess.run(["sh", "-c", text, "postrm", "purge"], check=True, env=environment, timeout=60)


def test_bridges_of_physical_networks_forward_again_unless_others_use_them(tmp_path: Path) -> None:
    with OpenVSwitch() as switch:
        bridge(switch, "br-int", OURS, mark="bridge")
        bridge(switch, "br-ex", OURS)
        bridge(switch, "br-op", OURS, OPERATORS)
        bridge(switch, "br-mine", OPERATORS)
        for outer in ("br-ex", "br-op"):
            port = f"phy-{outer}"
            ids = ["--", "set", "interface", port, "type=patch", "options:peer=x", "external_ids:neutrino=patch"]
            switch.vsctl("add-port", outer, port, *ids)
        purge(switch, tmp_path)
        assert switch.vsctl("list-br").split() == ["br-ex", "br-mine", "br-op"]
        assert switch.vsctl("get-fail-mode", "br-ex").strip() == ""
        assert flows(switch, "br-ex") == ["priority=0 actions=NORMAL"]
        for name in ("br-op", "br-mine"):
            assert switch.vsctl("get-fail-mode", name).strip() == "secure"
            assert flows(switch, name) == ["priority=7,in_port=2 actions=drop"]
            assert switch.vsctl("list-ports", name).strip() == ""
