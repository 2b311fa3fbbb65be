"""Metrics: their declarations, the dashboard and alert rules that use them, and how they are held and read."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from oslo_config import cfg

from neutrino.errors import RefusedToStart
from neutrino.metrics import catalog, exposition, files, instruments, listener
from neutrino.metrics.instruments import Instrument
from neutrino.server.api.app import resource_of
from tests.support import promql
from tests.support.metrics import parse, scrape
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "contrib/prometheus/alerts.yml"
DASHBOARD = ROOT / "contrib/grafana/neutrino.json"
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
TARGET_LABELS = {"instance", "job"}  # that Prometheus itself adds
# Name of a metric as it is queried → what is declared
QUERIED = {f"{name}{suffix}": one for name, one in Instrument.every.items() for suffix in SUFFIXES[one.type]}


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """Other tests of this process count nothing."""
    yield
    for one in Instrument.every.values():
        one.end()


# --- declarations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", Instrument.every.values(), ids=lambda one: one.name)
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
    assert rows == {name: f"{one.type}; {', '.join(sorted(one.components))}" for name, one in Instrument.every.items()}


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
    assert Instrument.every.keys() - used == unused | {"neutrino_agent_processes"}


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
    registry = instruments.start("feed", "1.0")
    found = parse(exposition.merged(registry.collect()).decode())
    assert found.value("neutrino_database_retries_total", process="feed", reason="stale") == 0
    assert found.value("neutrino_build_info", version="1.0", component="feed") == 1
    assert "neutrino_api_request_duration_seconds" not in found.types
    catalog.RETRIES.inc("stale")
    found = parse(exposition.merged(registry.collect()).decode())
    assert found.value("neutrino_database_retries_total", process="feed", reason="stale") == 1


def test_a_metric_that_gets_its_function_during_a_scrape_is_there_once() -> None:
    """As in a feed that is read while it starts."""
    families = instruments.start("feed", "1.0").collect()
    found = [next(families).name]
    catalog.POSITION.watch(lambda: 7.0)
    found += [family.name for family in families]
    assert found.count("neutrino_changelog_position") == 1


def test_a_function_that_fails_leaves_the_others() -> None:
    registry = instruments.start("agent", "1.0")

    def fail() -> float:
        raise OSError("the switch is away")

    catalog.DATAPLANE_UP.watch(fail)
    catalog.FLOWS.watch(lambda: {("br-int",): 7.0})
    found = parse(exposition.merged(registry.collect()).decode())
    assert found.value("neutrino_agent_flows", bridge="br-int") == 7
    assert math.isnan(found.value("neutrino_agent_dataplane_up"))


def _work(directory: Path, number: int) -> None:
    """Count as an API worker, in a child process."""
    stop = threading.Event()
    instruments.FLUSH_SECONDS = 0.01  # type: ignore[misc]
    instruments.start_shared("api", str(directory), stop)
    for _ in range(number):
        catalog.REQUESTS.observe(0.004, "ports", "POST", "2xx")
    catalog.RETRIES.inc("deadlock", by=2)
    catalog.CONNECTIONS.watch(lambda: {("read", "used"): 3.0})
    path = directory / f"gauge_livesum_{os.getpid()}.db"
    while not (path.exists() and b"used" in path.read_bytes()):  # written after the counts
        threading.Event().wait(0.01)


def count_in_child(directory: Path, number: int) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            _work(directory, number)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def test_counts_of_ended_workers_stay_and_their_gauges_go(tmp_path: Path) -> None:
    exposition.prepare(tmp_path)
    registry = instruments.start("server", "1.0")
    for number in range(exposition.MAX_ENDED + 3):  # more than are kept as files
        count_in_child(tmp_path, number)
        found = parse(exposition.server_text(tmp_path, registry).decode())
    count = sum(range(exposition.MAX_ENDED + 3))
    name = "neutrino_api_request_duration_seconds"
    assert found.value(f"{name}_count", resource="ports", method="POST", status="2xx") == count
    assert found.value(f"{name}_bucket", le="0.005") == count
    assert found.value(f"{name}_bucket", le="0.0025") == 0
    assert found.value(f"{name}_sum") == pytest.approx(0.004 * count)
    assert found.value("neutrino_database_retries_total", reason="deadlock") == 2 * (exposition.MAX_ENDED + 3)
    assert math.isnan(found.value("neutrino_database_connections"))
    assert len(list(tmp_path.glob("histogram_*.db"))) <= exposition.MAX_ENDED + 1
    exposition.prepare(tmp_path)
    assert not list(tmp_path.glob("*.db"))


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


def full(*args: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_metrics_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write to a mapped file without space would end the worker."""
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        instruments.start_shared("api", str(tmp_path), threading.Event())
    assert not list(tmp_path.iterdir())
    catalog.REQUESTS.observe(0.1, "ports", "GET", "2xx")
    catalog.RETRIES.inc("deadlock")
    assert not list(tmp_path.iterdir())


def test_the_space_of_a_file_is_allocated(tmp_path: Path) -> None:
    def work() -> None:
        instruments.start_shared("api", str(tmp_path), threading.Event())
        for number in range(400):  # more than a new file holds
            catalog.REQUESTS.observe(0.1, f"resource{number}", "GET", "2xx")

    in_child(work)
    sizes = {path.stem.rpartition("_")[0]: path.stat() for path in tmp_path.glob("*.db")}
    assert set(sizes) == {"counter", "histogram", "gauge_livesum"}
    assert sizes["histogram"].st_size > files.SIZE
    assert all(found.st_blocks * 512 >= found.st_size for found in sizes.values())


def test_requests_go_on_when_the_disk_fills_up(tmp_path: Path) -> None:
    def work() -> None:
        instruments.start_shared("api", str(tmp_path), threading.Event())
        os.posix_fallocate = full
        for number in range(400):
            catalog.REQUESTS.observe(0.1, f"resource{number}", "GET", "2xx")
        catalog.REQUESTS.observe(0.1, "resource0", "GET", "2xx")
        instruments.flush()

    in_child(work)
    (path,) = tmp_path.glob("histogram_*.db")
    assert path.stat().st_size == files.SIZE
    found = parse(exposition.server_text(tmp_path, instruments.start("server", "1.0")).decode())
    name = "neutrino_api_request_duration_seconds_count"
    assert found.value(name, resource="resource0") == 2
    assert math.isnan(found.value(name, resource="resource399"))


def test_ended_workers_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exposition.prepare(tmp_path)
    registry = instruments.start("server", "1.0")
    for _ in range(exposition.MAX_ENDED + 1):
        count_in_child(tmp_path, 1)
    with monkeypatch.context() as disk:
        disk.setattr(os, "posix_fallocate", full)
        before = parse(exposition.server_text(tmp_path, registry).decode())
    after = parse(exposition.server_text(tmp_path, registry).decode())
    name = "neutrino_api_request_duration_seconds_count"
    assert before.value(name) == after.value(name) == exposition.MAX_ENDED + 1


def test_what_cannot_be_written_leaves_the_others(tmp_path: Path) -> None:
    """And what was counted before the end is written at the end."""

    def fail() -> float:
        raise OSError("the database is away")

    def work() -> None:
        stop = threading.Event()
        instruments.start_shared("api", str(tmp_path), stop)  # with a second between two rounds
        (writer,) = [thread for thread in threading.enumerate() if thread.name == "metrics"]
        catalog.CONNECTIONS.watch(fail)
        instruments.flush()
        catalog.REQUESTS.observe(0.1, "ports", "GET", "2xx")
        stop.set()
        writer.join(10)
        assert not writer.is_alive()

    in_child(work)
    found = parse(exposition.server_text(tmp_path, instruments.start("server", "1.0")).decode())
    assert found.value("neutrino_api_request_duration_seconds_count") == 1


def test_scrapes_at_once_count_ended_workers_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exposition.prepare(tmp_path)
    registry = instruments.start("server", "1.0")
    for _ in range(exposition.MAX_ENDED + 1):
        count_in_child(tmp_path, 1)
    add_up, together = exposition._add_up, threading.Barrier(2)

    def slow(*args: Any) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(0.2)  # for the other scrape, if it gets here
        add_up(*args)

    monkeypatch.setattr(exposition, "_add_up", slow)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: exposition.server_text(tmp_path, registry), range(2)))
    found = parse(exposition.server_text(tmp_path, registry).decode())
    assert found.value("neutrino_api_request_duration_seconds_count") == exposition.MAX_ENDED + 1


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
    registry = instruments.start("agent", "1.0")
    with listener.serving(conf, lambda: exposition.merged(registry.collect())):
        assert scrape(conf.metrics.bind).value("neutrino_build_info") == 1
        with pytest.raises(OSError, match="404"):
            scrape(f"{conf.metrics.bind}/other")
        with listener.serving(conf, lambda: b""):  # the address is in use: a warning, and no failure
            assert scrape(conf.metrics.bind).value("neutrino_build_info") == 1
    with pytest.raises(OSError, match="refused"):
        scrape(conf.metrics.bind)
