"""A backup of the database is restored while agents and instances run."""

from __future__ import annotations

from pathlib import Path

from neutrino.cli.main import main
from neutrino.lab.errors import wait_until
from tests.support.dumps import dump, restore
from tests.support.lab import Pinging, address, network, open_group, pings
from tests.support.lab_control import Lab
from tests.support.routing_lab import wait_until_no_drift


def database(lab: Lab) -> Path:
    found = list(lab.paths.state.rglob("*.sqlite"))
    assert len(found) == 1, found
    return found[0]


def test_traffic_continues_while_a_backup_is_restored(lab: Lab, tmp_path: Path) -> None:
    blue, group = network(lab, "blue"), open_group(lab)
    for name, host in (("a", "h1"), ("b", "h2")):
        lab.vm(name, network=blue["id"], host=host, security_groups=[group])
    backup, file = tmp_path / "neutrino.sql", database(lab)
    dump(f"sqlite:///{file}", backup)
    conf = tmp_path / "server.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = sqlite:///{file}\n")
    lab.vm("late", network=blue["id"], host="h2", security_groups=[group])
    late = address(lab, "late")
    assert pings(lab, "a", late)

    with Pinging(lab, "a", address(lab, "b")) as traffic:
        lab.stop_server()
        for each in file.parent.glob(f"{file.name}*"):
            each.unlink()
        restore(backup, f"sqlite:///{file}")
        assert main(["db", "restored", "--config-file", str(conf)]) == 0
        lab.start_server()
        for host in lab.hosts:
            lab.wait_for_agent(host)
        # The port was created after the backup: no object has it any more, so its host removes it.
        wait_until(lambda: not pings(lab, "a", late, seconds=1), 60, "the later port is still connected")
    assert traffic.lost == 0, f"{traffic.lost} pings were lost"
    assert {each["name"] for each in lab.api.list("network")} == {"blue"}
    for host in lab.hosts:
        wait_until_no_drift(lab, host)
    again = lab.vm("again", network=blue["id"], host="h2", security_groups=[group])
    assert pings(lab, "a", address(lab, again.name))
