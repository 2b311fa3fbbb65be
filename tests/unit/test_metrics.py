"""Metrics: their declarations, the dashboard and alert rules that use them, and how they are held and read."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from oslo_config import cfg
from prometheus_client import CollectorRegistry, generate_latest

from neutrino.errors import RefusedToStart
from neutrino.metrics import catalog, listener, process
from neutrino.metrics.instruments import Instrument
from neutrino.metrics.server import ServerMetrics, prepare
from neutrino.server.api.app import resource_of
from tests.support import promql
from tests.support.metrics import Scrape, parse, scrape
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "contrib/prometheus/alerts.yml"
DASHBOARD = ROOT / "contrib/grafana/neutrino.json"
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
TARGET_LABELS = {"instance", "job"}  # that Prometheus itself adds
# Name of a metric as it is queried → what is declared
DECLARED = {one.name: one for one in catalog.ALL}
QUERIED = {f"{name}{suffix}": one for name, one in DECLARED.items() for suffix in SUFFIXES[one.type]}


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """Other tests of this process count nothing."""
    yield
    process.end()


# --- declarations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", catalog.ALL, ids=lambda one: one.name)
def test_names_follow_the_conventions(one: Instrument) -> None:
    assert re.fullmatch(r"neutrino_[a-z_]+", one.name)
    assert one.name.endswith("_total") == (one.type == "counter")
    assert one.name.endswith("_seconds") == (one.type == "histogram")
    assert one.help.endswith(".")
    assert one.components <= {"api", "feed", "agent", "server"}
    assert not {"port_id", "network_id", "project_id", "request_id"} & set(one.labels)


def test_the_design_page_has_all_metrics() -> None:
    text = (ROOT / "docs/design/observability.md").read_text()
    rows = dict(re.findall(r"^\| `(neutrino_\w+)` \| ([^|]*) \|", text, re.MULTILINE))
    assert rows == {name: f"{one.type}; {', '.join(sorted(one.components))}" for name, one in DECLARED.items()}


# --- dashboard and rules ----------------------------------------------------------------------------------------------


def check(expression: str) -> None:
    uses, grouped = promql.read(expression)
    labels: set[str] = set()
    for use in uses:
        assert use.metric in QUERIED, f"{use.metric} in {expression}"
        known = {*QUERIED[use.metric].labels, "le"}
        assert use.labels <= known, expression
        labels |= known
    assert grouped <= labels | TARGET_LABELS, expression


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alert_rules(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Neutrino[A-Za-z]+", rule["alert"])
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert set(rule["annotations"]) == {"summary", "description"}
    check(rule["expr"])
    _, grouped = promql.read(rule["expr"])
    uses, _ = promql.read(rule["expr"])
    available = grouped or {*TARGET_LABELS, *(label for use in uses for label in QUERIED[use.metric].labels)}
    named = re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))
    assert set(named) <= available, rule["alert"]


def test_the_names_of_rules_are_unique() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    groups = yaml.safe_load(ALERTS.read_text())
    assert set(groups) == {"groups"}
    assert all(set(group) == {"name", "rules"} for group in groups["groups"])


def test_the_dashboard() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places: set[tuple[int, int]] = set()
    used: set[str] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & places, panel["title"]
        places |= cells
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
            check(target["expr"])
            uses, _ = promql.read(target["expr"])
            used |= {QUERIED[use.metric].name for use in uses}
            legend = re.findall(r"{{(\w+)}}", target["legendFormat"])
            assert set(legend) <= {*TARGET_LABELS, *(label for use in uses for label in QUERIED[use.metric].labels)}
    for rule in rules():
        used |= {QUERIED[use.metric].name for use in promql.read(rule["expr"])[0]}
    # What nobody looks at is not worth collecting; these are for other questions.
    unused = {"neutrino_api_workers", "neutrino_feed_full_reads_total", "neutrino_agent_feed_position"}
    unused |= {"neutrino_agent_applied_position", "neutrino_agent_unacknowledged_reports", "neutrino_agent_objects"}
    assert DECLARED.keys() - used == unused | {"neutrino_agent_processes"}


@pytest.mark.parametrize(
    "text", ["rate(x[5m]", 'x{a="b"', "foo(x)", 'x{a>"b"}', "1", "x[5 minutes]", "sum by (a) (x))", "x{a=b}"]
)
def test_wrong_expressions_are_found(text: str) -> None:
    with pytest.raises((promql.NotUnderstood, ValueError)):
        promql.read(text)


# --- values -----------------------------------------------------------------------------------------------------------


def test_nothing_is_counted_before_the_start() -> None:
    catalog.RETRIES.inc("stale")
    catalog.REQUESTS.observe(1.0, "ports", "GET", "2xx")
    registry = process.start("feed", "1.0")
    found = parse(generate_latest(registry).decode())
    assert found.value("neutrino_database_retries_total", process="feed", reason="stale") == 0
    assert found.value("neutrino_build_info", version="1.0", component="feed") == 1
    assert "neutrino_api_request_duration_seconds" not in found.types
    catalog.RETRIES.inc("stale")
    found = parse(generate_latest(registry).decode())
    assert found.value("neutrino_database_retries_total", process="feed", reason="stale") == 1


def test_a_metric_that_gets_its_function_during_a_scrape_is_there_once() -> None:
    """As in a feed that is read while it starts."""
    families = process.start("feed", "1.0").collect()
    found = [next(families).name]
    catalog.POSITION.watch(lambda: 7.0)
    found += [family.name for family in families]
    assert found.count("neutrino_changelog_position") == 1


def test_a_function_that_fails_leaves_the_others() -> None:
    registry = process.start("agent", "1.0")

    def fail() -> float:
        raise OSError("the switch is away")

    catalog.DATAPLANE_UP.watch(fail)
    catalog.FLOWS.watch(lambda: {("br-int",): 7.0})
    found = parse(generate_latest(registry).decode())
    assert found.value("neutrino_agent_flows", bridge="br-int") == 7
    assert math.isnan(found.value("neutrino_agent_dataplane_up"))


def in_child(function: Callable[[], None]) -> None:
    """Run it as a worker, whose metrics no other test has; its exit status shows a failure."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def count(directory: Path, number: int) -> None:
    """Count as an API worker."""
    process.WRITE_SECONDS = 0.01  # type: ignore[misc]
    process.start_worker(directory, threading.Event())
    for _ in range(number):
        catalog.REQUESTS.observe(0.004, "ports", "POST", "2xx")
    catalog.RETRIES.inc("deadlock", by=2)
    catalog.CONNECTIONS.watch(lambda: {("read", "used"): 3.0})
    while not any(b"used" in path.read_bytes() for path in directory.glob("gauge_*.db")):
        threading.Event().wait(0.01)


def scrape_server(directory: Path) -> Scrape:
    return parse(generate_latest(ServerMetrics(CollectorRegistry(), directory)).decode())


REQUESTS = "neutrino_api_request_duration_seconds"


def test_counts_of_ended_workers_stay_and_their_gauges_go(tmp_path: Path) -> None:
    prepare(tmp_path)
    for number in range(5):
        in_child(lambda number=number: count(tmp_path, number))  # type: ignore[misc]
        assert math.isnan(scrape_server(tmp_path).value("neutrino_database_connections"))
    found = scrape_server(tmp_path)
    assert found.value(f"{REQUESTS}_count", resource="ports", method="POST", status="2xx") == 10
    assert found.value(f"{REQUESTS}_bucket", le="0.005") == 10
    assert found.value(f"{REQUESTS}_bucket", le="0.0025") == 0
    assert found.value(f"{REQUESTS}_sum") == pytest.approx(0.004 * 10)
    assert found.value("neutrino_database_retries_total", reason="deadlock") == 10
    assert len(list(tmp_path.glob("histogram_*.db"))) == 1  # each has taken over the files of the one before
    prepare(tmp_path)
    assert math.isnan(scrape_server(tmp_path).value(f"{REQUESTS}_count"))


def test_workers_that_run_at_once_are_summed_up(tmp_path: Path) -> None:
    """As during a reload, when new workers start before the old ones end."""
    prepare(tmp_path)

    def work() -> None:
        count(tmp_path, 1)
        in_child(lambda: count(tmp_path, 2))
        assert scrape_server(tmp_path).value("neutrino_database_connections", pool="read", state="used") == 3

    in_child(work)
    assert scrape_server(tmp_path).value(f"{REQUESTS}_count") == 3
    assert len(list(tmp_path.glob("histogram_*.db"))) == 2


def test_no_metrics_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write to a mapped file without space would end the worker."""

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def work() -> None:
        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OSError, match="No space left"):
            process.start_worker(tmp_path, threading.Event())
        catalog.REQUESTS.observe(0.1, "ports", "GET", "2xx")
        catalog.RETRIES.inc("deadlock")

    in_child(work)
    assert {path.name for path in tmp_path.iterdir()} == {"0.lock"}


def test_the_space_of_a_file_is_allocated(tmp_path: Path) -> None:
    def work() -> None:
        process.start_worker(tmp_path, threading.Event())
        for number in range(800):
            catalog.REQUESTS.observe(0.1, f"resource{number}", "GET", "2xx")

    in_child(work)
    sizes = {path.stem.rpartition("_")[0]: path.stat() for path in tmp_path.glob("*.db")}
    assert {name: found.st_size for name, found in sizes.items()} == process.SIZES
    assert all(found.st_blocks * 512 >= found.st_size for found in sizes.values())


def test_a_gauge_that_cannot_be_written_is_written_later(tmp_path: Path) -> None:
    failures = [OSError("the database is away")]

    def connections() -> dict[tuple[str, ...], float]:
        if failures:
            raise failures.pop()
        return {("write", "used"): 3.0}

    def work() -> None:
        process.start_worker(tmp_path, threading.Event())
        catalog.CONNECTIONS.watch(connections)
        catalog.CONNECTIONS.write()
        assert math.isnan(scrape_server(tmp_path).value("neutrino_database_connections"))
        catalog.CONNECTIONS.write()
        assert scrape_server(tmp_path).value("neutrino_database_connections", process="api", pool="write") == 3

    in_child(work)


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/v2.0/ports/{key}", "ports"),
        ("/v2.0/routers/{key}/add_router_interface", "routers"),
        ("/v2.0/floatingips/{parent}/port_forwardings/{key}", "port_forwardings"),
        ("/v2.0/qos/policies", "qos_policies"),
        ("/v2.0/security-group-rules", "security_group_rules"),
        ("/v2.0/agents/{parent}/dhcp-networks", "dhcp_networks"),
        ("/v2.0", "discovery"),
    ],
)
def test_the_resource_of_a_route(path: str, resource: str) -> None:
    assert resource_of(path) == resource


# --- the listener -----------------------------------------------------------------------------------------------------


def configuration(**values: Any) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf.register_opts(listener.options("127.0.0.1:9699"), "metrics")
    conf([], default_config_files=[])
    for name, value in values.items():
        conf.set_override(name, value, "metrics")
    return conf


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"bind": "9699"}, "is not host:port"),
        ({"bind": "127.0.0.1:99999"}, "is not host:port"),
        ({"bind": "0.0.0.0:9699"}, "is reachable from other machines"),
        ({"bind": "[::]:9699"}, "is reachable from other machines"),
        ({"tls_cert_file": "/x"}, "have to be set together"),
        (
            {"tls_cert_file": "/nowhere/cert", "tls_key_file": "/nowhere/key"},
            "tls_cert_file=/nowhere/cert cannot be read",
        ),
    ],
)
def test_addresses_that_are_refused(values: dict[str, str], reason: str) -> None:
    with pytest.raises(RefusedToStart, match=re.escape(reason)):
        listener.address(configuration(**values))


def test_addresses() -> None:
    assert listener.address(configuration()) == ("127.0.0.1", 9699)
    assert listener.address(configuration(bind="[::1]:1")) == ("::1", 1)
    assert listener.address(configuration(bind="")) is None
    assert listener.address(configuration(bind="0.0.0.0:1", allow_plain_beyond_loopback=True)) == ("0.0.0.0", 1)


def test_the_listener_serves_one_path(tmp_path: Path) -> None:
    conf = configuration(bind=f"127.0.0.1:{free_port()}")
    registry = process.start("agent", "1.0")
    with listener.serving(conf, registry):
        assert scrape(conf.metrics.bind).value("neutrino_build_info") == 1
        with pytest.raises(OSError, match="404"):
            scrape(f"{conf.metrics.bind}/other")
        with listener.serving(conf, CollectorRegistry()):  # the address is in use: a warning, and no failure
            assert scrape(conf.metrics.bind).value("neutrino_build_info") == 1
    with pytest.raises(OSError, match="refused"):
        scrape(conf.metrics.bind)
