"""A third-party extension of the L3 role: added, updated, repaired and removed with its router, on fakes and for real."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from oslo_config import cfg

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import router_namespace
from neutrino.agent.l3.router import DesiredRouters
from neutrino.agent.l3.routers import Routers
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.dataplane.netlink.api import Netlink
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.nft.api import Nft, TablePlan
from neutrino.dataplane.nft.real import RealNft
from neutrino.dataplane.ovsdb.api import SetBridge
from neutrino.model.routing import Router
from tests.fakes.netlink import FakeNetlink
from tests.fakes.nft import FakeNft
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.l3_host import Feed, Flushes
from tests.support.l3_rate_limit import RateLimit
from tests.support.routing import GATEWAY, floating, interface, router

PAGE = Path(__file__).parents[2] / "docs/design/l3-extensions.md"
EXAMPLE = Path(__file__).parents[1] / "support/l3_rate_limit.py"


class RouterHost:
    """A host with one router, `router_id`, and the extension. Names are of this test alone."""

    def __init__(self, netlink: Netlink, nft: Nft, state_path: Path) -> None:
        self.netlink, self.nft, self.extension = netlink, nft, RateLimit(cfg.ConfigOpts())
        self.router_id = uuid.uuid4().hex[:8]
        self.namespace = router_namespace(self.router_id)
        self.gateway = msgspec.structs.replace(GATEWAY, id=str(uuid.uuid4()))
        self._interface = msgspec.structs.replace(interface(1), id=str(uuid.uuid4()))
        ovsdb = FakeOvsdb()
        ovsdb.apply([SetBridge("br-int")])
        services = ServiceNamespaces(netlink, lambda: ovsdb, nft)
        options = L3Options(host="h1", state_path=str(state_path), veth=True)
        self.routers = Routers(services, lambda namespace: Flushes(), options, DesiredRouters(Feed()), [self.extension])

    def router(self, *numbers: int) -> Router:
        several = tuple(floating(number, f"10.0.1.{number}") for number in numbers)
        return router(self._interface, id=self.router_id, gateway=self.gateway, floating_ips=several)

    def settle(self, *numbers: int) -> int:
        """Applies the router with these floating IPs; a second time changes nothing."""
        wanted = self.router(*numbers)
        changes = self.routers.apply(wanted).changes
        assert self.routers.find(wanted) == []
        assert self.routers.apply(wanted).changes == 0
        return changes

    def limits(self) -> frozenset[str]:
        return self.nft.read(self.namespace)["ip neutrino"].elements.get("rate_limits", frozenset())


@pytest.fixture(params=["fake", "real"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RouterHost]:
    netlink: Netlink = FakeNetlink() if request.param == "fake" else RealNetlink()
    nft: Nft = FakeNft(netlink) if isinstance(netlink, FakeNetlink) else RealNft()
    made = RouterHost(netlink, nft, tmp_path)
    try:
        yield made
    finally:
        made.routers.remove(made.router_id)


def test_a_contribution_is_added_updated_and_deleted_with_its_floating_ips(host: RouterHost) -> None:
    host.settle()
    assert host.limits() == frozenset()
    assert "rate_limit" not in host.nft.read(host.namespace)["ip neutrino"].chains
    host.settle(9)
    assert host.limits() == {"203.0.113.9 : fip_203_0_113_9"}
    host.settle(9, 10)
    assert len(host.limits()) == 2
    host.extension.kbit = 4_000
    assert host.settle(9, 10) == 1, "the limits are replaced"
    host.settle()
    assert host.limits() == frozenset()
    host.routers.remove(host.router_id)
    assert host.namespace not in host.netlink.namespaces()


def test_drift_of_a_contribution_is_planned_and_repaired(host: RouterHost) -> None:
    host.settle(9)
    host.nft.apply(host.namespace, TablePlan("ip neutrino", delete=True))
    plan = "\n".join(host.routers.find(host.router(9)))
    assert "replace table ip neutrino: it does not exist" in plan
    assert host.settle(9) == 1


def test_before_synced_a_contribution_is_added_and_nothing_is_removed(host: RouterHost) -> None:
    host.settle(9)
    assert host.routers.apply(host.router(), complete=False).changes == 0
    assert len(host.limits()) == 1
    host.settle()
    host.routers.apply(host.router(9), complete=False)
    assert host.limits() == frozenset(), "a table that exists is not replaced"
    host.nft.apply(host.namespace, TablePlan("ip neutrino", delete=True))
    host.routers.apply(host.router(9), complete=False)
    assert len(host.limits()) == 1, "what is missing is added"


def test_the_design_page_shows_this_extension() -> None:
    (shown,) = re.findall(r"```python\n(class RateLimit.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown.strip() in EXAMPLE.read_text()
