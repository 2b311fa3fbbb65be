"""Logs of security groups with the `openstack` command and openstacksdk."""

from __future__ import annotations

from tests.clients.shell import Shell


def test_the_command(shell: Shell) -> None:
    assert shell.json("network loggable resources list") == [{"Supported types": "security_group"}]
    group = shell.json("security group create logged")["id"]
    made = shell.json("network log create drops --resource-type security_group --resource logged --event DROP")
    assert (made["Name"], made["Event"], made["Resource"], made["Enabled"]) == ("drops", "DROP", group, True)
    shell("network create logged")
    port = shell.json("port create logged --network logged --security-group logged")["id"]
    both = "--resource-type security_group --resource logged --target logged"
    assert shell.json(f"network log create one {both} --disable --description d")["Target"] == port
    assert {row["Name"] for row in shell.json("network log list")} == {"drops", "one"}
    shell("network log set one --enable --name two")
    shown = shell.json("network log show two")
    assert (shown["Enabled"], shown["Description"], shown["Revision"]) == (True, "d", 1)
    assert "cannot be logged" in shell.refused("network log create bad --resource-type router")
    shell("network log delete drops")
    shell("port delete logged")
    assert shell.json("network log list") == []
    shell("network delete logged")
    shell("security group delete logged")
