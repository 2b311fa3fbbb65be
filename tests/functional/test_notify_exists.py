"""`neutrino notify exists`: one notification for each object, through a real RabbitMQ."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from neutrino.cli import main, notify
from neutrino.server.config import configuration
from neutrino.server.main import assemble, begin
from tests.api.client import Api
from tests.functional.test_notifications_rabbitmq import consume, forget_queues
from tests.support.databases import prepared_sqlite
from tests.support.rabbitmq import RabbitMQ

pytestmark = pytest.mark.rabbitmq


def written(tmp_path: Path, driver: str, url: str = "rabbit://127.0.0.1:1/") -> str:
    path = tmp_path / "neutron.conf"
    database = tmp_path / "test.sqlite"
    if not database.exists():
        prepared_sqlite(database)
    path.write_text(
        f"[DEFAULT]\nauth_strategy = noauth\nstate_path = {tmp_path}\nhost = h1\ntransport_url = {url}\n"
        f"[database]\nconnection = sqlite:///{database}\n[oslo_messaging_notifications]\ndriver = {driver}\n"
    )
    return str(path)


def objects(path: str) -> dict[str, set[str]]:
    """Make some of each kind, of several projects; the ids of all by kind."""
    server = assemble(configuration([path]))
    begin(server)
    try:
        admin, other = Api(server.app).as_admin(), Api(server.app)
        network = admin.network(router__external=True)
        admin.subnet(network)
        admin.make("floatingip", floating_network_id=network["id"])
        admin.make("router", external_gateway_info={"network_id": network["id"]})
        inner = other.network()
        other.subnet(inner, "10.9.0.0/24")
        for _ in range(4):
            other.port(inner)
        kinds = ("network", "subnet", "port", "router", "floatingip")
        return {kind: {one["id"] for one in admin.all(f"/{kind}s")} for kind in kinds}
    finally:
        server.close()


def test_each_object_is_sent_once(
    rabbitmq: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = rabbitmq.at("notifications")
    forget_queues(url)
    made = objects(written(tmp_path, "noop"))
    monkeypatch.setattr(notify, "PAGE", 2)  # several pages
    path = written(tmp_path, "messagingv2", url)
    assert main.main(["notify", "exists", "--config-file", path]) == 0
    out = capsys.readouterr().out.split("\n")
    assert out[:5] == [f"{kind}.exists: {len(ids)}" for kind, ids in made.items()]
    messages = consume(url, sum(map(len, made.values())))
    forget_queues(url)
    sent = [(m["event_type"], m["payload"]) for m in messages]
    assert [kind for kind, _ in sent] == [f"{kind}.exists" for kind, ids in made.items() for _ in ids], "in this order"
    for kind, ids in made.items():
        assert {payload[kind]["id"] for event, payload in sent if event == f"{kind}.exists"} == ids
    ports = [payload["port"] for event, payload in sent if event == "port.exists"]
    assert all("binding:host_id" in port and "fixed_ips" in port for port in ports), "as an administrator sees them"
    assert {m["publisher_id"] for m in messages} == {"network.h1"}


def test_without_a_broker_or_a_driver_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    objects(written(tmp_path, "noop"))
    assert main.main(["notify", "exists", "--config-file", written(tmp_path, "noop")]) == 1
    assert "notifications are off" in capsys.readouterr().err
    monkeypatch.setattr(notify, "PATIENCE", 0.5)
    assert main.main(["notify", "exists", "--config-file", written(tmp_path, "messagingv2")]) == 1
    assert "the broker does not take notifications: stopped at network" in capsys.readouterr().err


def test_the_driver_log_has_each_object(tmp_path: Path) -> None:
    made = objects(written(tmp_path, "noop"))
    path, log = written(tmp_path, f"log\n[DEFAULT]\nlog_file = {tmp_path}/notify.log"), tmp_path / "notify.log"
    program = "import sys; from neutrino.cli.main import main; sys.exit(main())"
    arguments = [sys.executable, "-c", program, "notify", "exists", "--config-file", path]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[0] == f"network.exists: {len(made['network'])}"
    lines = [line for line in log.read_text().split("\n") if " oslo.messaging.notification." in line]
    found = [json.loads(line[line.index("{") :]) for line in lines]
    assert len(found) == sum(map(len, made.values()))
    assert {one["payload"]["router"]["id"] for one in found if one["event_type"] == "router.exists"} == made["router"]
