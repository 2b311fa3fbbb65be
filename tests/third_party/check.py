"""Checks the feature `rate_limit` from a request to a flow: python -m tests.third_party.check <directory> <database>"""

import asyncio
import sys
from pathlib import Path

from neutrino.agent.config import configuration
from neutrino.agent.l2.build import feed_kinds, load
from neutrino.agent.l2.extensions import BUILT_IN
from neutrino.feed.address import Address
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.fakes.openvswitch import FakeOpenVSwitch
from tests.support.feed import HostEnd, serving, until
from tests.support.l2 import OPEN, network, port
from tests.support.l2_extension import ExtensionHost


def check_api(api: Api, port_id: str) -> str:
    assert "rate-limit" in {one["alias"] for one in api.get("/extensions").body["extensions"]}
    values = {"port_id": port_id, "packets_per_second": 100}
    api.as_member(api.project).post("/rate_limits", {"rate_limit": values}).refused(403, "PolicyNotAuthorized")
    limit = api.post("/rate_limits", {"rate_limit": values}).expect(201).body["rate_limit"]
    api.post("/rate_limits", {"rate_limit": {**values, "packets_per_second": 0}}).refused(400, "HTTPBadRequest")
    api.post("/rate_limits", {"rate_limit": values}).expect(201)
    api.post("/rate_limits", {"rate_limit": values}).refused(409, "OverQuota")
    api.delete(f"/ports/{port_id}").refused(409, "ServicePortInUse")
    stranger = api.as_stranger()
    assert stranger.get("/rate_limits").body == {"rate_limits": []}
    stranger.get(f"/rate_limits/{limit['id']}").refused(404, "RateLimitNotFound")
    assert {one["port_id"] for one in api.get("/rate_limits", {"port_id": port_id}).body["rate_limits"]} == {port_id}
    return str(limit["id"])


async def check_feed(server: Server, api: Api, directory: Path, port_id: str, limit_id: str) -> dict[str, object]:
    """The limit as its host has it: received with the port, updated, and gone when it is deleted."""
    conf = configuration([])
    conf.set_override("extensions", ["rate_limit"], "agent")
    key = Credentials(server.db).add("h1")
    address = Address(path=str(directory / "feed.sock"))
    async with serving(server, address), HostEnd(address, "h1", key, kinds=feed_kinds(load(conf))) as host:
        limits = host.client.state.objects["rate_limit"]
        await until(lambda: len(limits) == 2, "both limits")
        await asyncio.to_thread(api.put, f"/rate_limits/{limit_id}", {"rate_limit": {"packets_per_second": 7}})
        await until(lambda: limits[limit_id].packets_per_second == 7, "the update")
        other = next(one for one in limits if one != limit_id)
        await asyncio.to_thread(api.delete, f"/rate_limits/{other}")
        await until(lambda: list(limits) == [limit_id], "the deletion")
        received = dict(limits)
    changes = api.get("/changes", {"object_id": limit_id}).body["changes"]  # with positions, since the feed has run
    assert [(change["kind"], change["action"]) for change in changes][:1] == [("rate_limit", "created")]
    return received


def check_flows(limits: dict[str, object], port_id: str) -> None:
    conf = configuration([])
    conf.set_override("extensions", ["rate_limit"], "agent")
    fake = FakeOpenVSwitch()
    host = ExtensionHost(fake.ovsdb, fake.openflow, "", load(conf)[len(BUILT_IN) :])
    host.reconcile()
    host.plug(port_id)
    host.reconcile(network("net", "local", 0), OPEN, port(port_id, 1, groups=["open"]), *limits.values())
    assert [meter.rate for meter in host.meters().values()] == [7]


def main() -> None:
    directory = Path(sys.argv[1])
    server = start(directory, sys.argv[2])
    switch(server, "h1", tunneling_ip="192.0.2.1")
    api = Api(server.app).as_admin()
    bound = api.port(api.network(), binding__host_id="h1", device_owner="compute:nova")
    limit_id = check_api(api, bound["id"])
    limits = asyncio.run(check_feed(server, api, directory, bound["id"], limit_id))
    check_flows(limits, bound["id"])
    server.close()
    sys.stdout.write("all checks have passed\n")


if __name__ == "__main__":
    main()
