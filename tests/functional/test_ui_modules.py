"""Pure functions of the topology page, called in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Browser, Page
from tests.support.neutrino import Neutrino


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with Neutrino() as server, browser.page() as opened:
        opened.goto(f"{server.url}/ui/")
        opened.wait_for_text("Live", ".connection")
        yield opened


@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("clean", ["a\u202eb\nc\x00d\ufeff "], "abcd"),
        ("clean", [None], ""),
        ("shortId", ["0f1e2d3c-4b5a-4987-8654-3210fedcba98"], "0f1e2d3c"),
        ("shortId", ["admin"], "admin"),
        ("count", [1, "network"], "1 network"),
        ("count", [12345, "port"], "12\u202f345 ports"),
        ("compact", [253], "253"),
        ("compact", [65533], "65.5k"),
        ("compact", [2**24], "16.7M"),
        ("ago", [1000], "now"),
        ("ago", [59_000], "59 s ago"),
        ("ago", [7_200_000], "2 h ago"),
        ("ago", [86_400_000], "1 day ago"),
        ("parseTime", ["2026-01-01 10:00:00"], 1767261600000),
        ("parseTime", ["2026-01-01T10:00:00Z"], 1767261600000),
        ("parseTime", ["never"], None),
        ("shown", [{"a": 1}], '{"a":1}'),
        ("shown", [[True, None]], "yes, –"),
    ],
)
def test_formats(page: Page, call: str, arguments: list[Any], expected: Any) -> None:
    assert page.module("js/core/format.js", call, *arguments) == expected


def test_large_numbers_are_powers_of_two(page: Page) -> None:
    assert page.evaluate("import('/ui/js/core/format.js').then((m) => m.compact(2n ** 64n))") == "2⁶⁴"


def test_a_text_is_cut_between_characters(page: Page) -> None:
    """An emoji of several code points is one character."""
    family = "👩‍👩‍👧‍👦"
    cut = f"import('/ui/js/core/format.js').then((m) => m.truncate({family * 5!r}, 23, (t) => t.length))"
    assert page.evaluate(cut) == f"{family}{family}…"


@pytest.mark.parametrize(
    "place",
    [
        "#/topology",
        "#/hosts?select=host%3Ah1",
        "#/trace?from=a&to=10.0.0.1",
        "#/topology?project=p&select=port%3Ax%3Ay",
    ],
)
def test_places_survive_the_way_to_the_address_and_back(page: Page, place: str) -> None:
    module = "import('/ui/js/core/hash.js').then((m) => m.formatPlace(m.parsePlace({!r})))"
    assert page.evaluate(module.format(place)) == place


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10.0.0.1", 167772161),
        ("::1", 1),
        ("::ffff:1.2.3.4", 281470698652420),
        ("10.0.0", None),
        ("10.0.0.256", None),
        (":::1", None),
        ("1:2:3:4:5:6:7:8:9", None),
        ("g::", None),
        ("web", None),
    ],
)
def test_addresses(page: Page, text: str, value: int | None) -> None:
    got = page.evaluate(f"import('/ui/js/data/addresses.js').then((m) => String(m.parseAddress({text!r})))")
    assert got == ("null" if value is None else str(value))


def test_what_has_to_be_fetched_again(page: Page) -> None:
    changes = [
        {"kind": kind, "object_id": key} for kind, key in (("port", "a"), ("port", "a"), ("qos", "b"), ("port", "c"))
    ]
    code = f"import('/ui/js/data/changes.js').then((m) => [...m.idsByKind({changes}, ['port', 'network'])])"
    assert page.evaluate(code) == [["port", ["a", "c"]]]
    differing = (
        "import('/ui/js/data/changes.js').then((m) => m.differing(new Map(["
        "['same', {revision_number: 1, status: 'ACTIVE'}], ['gone', {revision_number: 1}],"
        "['newer', {revision_number: 1}], ['down', {revision_number: 1, status: 'ACTIVE'}]]), ["
        "{id: 'same', revision_number: 1, status: 'ACTIVE'}, {id: 'newer', revision_number: 2},"
        "{id: 'down', revision_number: 1, status: 'DOWN'}, {id: 'added', revision_number: 0}]))"
    )
    assert sorted(page.evaluate(differing)) == ["added", "down", "gone", "newer"]
    for position, answer, expected in (
        (5, {"position": 9, "removed": 3}, False),
        (5, {"position": 9, "removed": 6}, True),
    ):
        assert page.module("js/data/changes.js", "isTooOld", position, answer) is expected


DRAW = (Path(__file__).parents[1] / "support" / "ui_layout.js").read_text()


@pytest.mark.parametrize(
    ("projects", "networks", "is_open", "types"),
    [
        (0, 0, False, {"external": 2}),
        (1, 5, False, {"external": 2, "router": 1, "network": 5}),
        (3, 7, False, {"external": 2, "router": 3, "network": 21}),
        (20, 25, False, {"external": 2, "project": 20}),
        (20, 25, True, {"external": 2, "router": 20, "network": 500}),
        (1, 200, True, {"external": 2, "router": 1, "network": 200}),
    ],
)
def test_layouts(page: Page, projects: int, networks: int, is_open: bool, types: dict[str, int]) -> None:
    """The same data has the same picture; cards do not overlap, and straight lines do not cross them."""
    code = DRAW.partition("\n")[2].replace("PROJECTS", str(projects)).replace("NETWORKS", str(networks))
    found = page.evaluate(code.replace("OPEN", "true" if is_open else "false"))
    assert {name: found["types"].get(name) for name in types} == types
    assert {name: found[name] for name in ("overlaps", "crossed", "same", "loose", "paths")} == {
        "overlaps": [],
        "crossed": [],
        "same": True,
        "loose": [],
        "paths": [],
    }


def test_health_of_agents(page: Page) -> None:
    def agent(**values: Any) -> dict[str, Any]:
        return {"id": "a", "agent_type": "L3 agent", "host": "h", "alive": True, "admin_state_up": True, **values}

    for values, expected in (
        ({}, "ok"),
        ({"alive": False}, "bad"),
        ({"admin_state_up": False}, "off"),
        ({"configurations": {"dataplane": "down: no answer"}}, "bad"),
        ({"configurations": {"dataplane": "up", "feed_behind": 3}}, "warn"),
        ({"configurations": {"problems": {"port x": "no flow"}}}, "warn"),
    ):
        assert page.module("js/data/hosts.js", "agentHealth", agent(**values)) == expected, values


def test_findings_are_those_of_the_server(page: Page) -> None:
    error = {"severity": "error", "resource_type": "agent", "resource_id": "1", "host": "h1", "kind": "dataplane-down",
             "what": "L3 agent on h1: no report for 90 s", "meaning": "m", "fix": "f"}  # fmt: skip
    note = {"severity": "note", "resource_type": "port", "resource_id": "2", "host": "h1", "kind": "port-not-wired",
            "what": "port web (2) (host h1): its host has not reported it as up", "meaning": "m", "fix": "f"}  # fmt: skip
    routers = "new Map([['r', {id: 'r', name: 'edge', status: 'ERROR'}], ['s', {id: 's', status: 'ACTIVE'}]])"
    code = (
        "import('/ui/js/data/health.js').then((m) => m.problemsOf({port: PORTS, router: ROUTERS,"
        " floatingip: new Map()}, STATUS))"
    ).replace("ROUTERS", routers)
    status = {"problems": [error], "notes": [note]}
    found = page.evaluate(code.replace("STATUS", _js(status)).replace("PORTS", "new Map()"))
    shown = [(e["severity"], e["title"], e["items"][0]["subject"], e["fix"], e["count"]) for e in found]
    assert shown == [
        ("bad", "No report for 90 s", "L3 agent on h1", "f", 1),
        ("note", "Its host has not reported it as up", "web (host h1)", "f", 1),
    ]
    found = page.evaluate(code.replace("STATUS", "null").replace("PORTS", "new Map()"))
    assert [(e["severity"], e["title"], e["items"]) for e in found] == [
        ("bad", "Its status is ERROR", [{"kind": "router", "id": "r", "subject": "edge"}])
    ], "members see the status of their objects"


def finding(kind: str, what: str, **values: str) -> dict[str, str]:
    empty = {"severity": "error", "resource_type": "", "resource_id": "", "host": "", "meaning": "m", "fix": "f"}
    return {**empty, "kind": kind, "what": what, **values}


def test_failures_are_counted_exactly(page: Page) -> None:
    """Of many the server names ten, and tells the number of the others; the page knows all."""
    named = [
        finding(
            "binding-failed",
            f"port p{n} (p{n}) (host h1): the binding failed",
            resource_type="port",
            resource_id=f"p{n}",
        )
        for n in range(10)
    ]
    more = finding("binding-failed", "51 more ports: the binding failed", resource_type="port")
    status = _js({"problems": [*named, more], "ports": {"by_binding": {"failed": 61}}})
    port = "{id: `p${n}`, name: `p${n}`, 'binding:host_id': 'h1', 'binding:vif_type': 'binding_failed', status: 'DOWN'}"
    for known in (61, 0):
        ports = f"new Map(Array.from({{length: {known}}}, (_, n) => [`p${{n}}`, {port}]))"
        found = page.evaluate(
            f"import('/ui/js/data/health.js').then((m) => {{ const all = m.problemsOf({{port: {ports}}}, {status});"
            " return [m.totals(all).bad, all.length, all[0].items.length]; })"
        )
        assert found == [61, 1, known or 10]


def test_a_host_that_does_not_report_is_one_failure(page: Page) -> None:
    roles = [("host-down", f"{role} agent on h1: no report for {9 + at} s") for at, role in enumerate(("L3", "DHCP"))]
    roles.append(("host-disconnected", "Metadata agent on h1: the host is not connected"))
    problems = [finding(kind, what, resource_type="agent", resource_id=what[:4], host="h1") for kind, what in roles]
    code = (
        f"import('/ui/js/data/health.js').then((m) => m.problemsOf({{port: new Map()}}, {_js({'problems': problems})}))"
    )
    found = page.evaluate(code)
    assert [(e["severity"], e["title"], e["count"], e["items"]) for e in found] == [
        ("bad", "The host does not report", 1, [{"kind": "host", "id": "h1", "subject": "h1"}])
    ]


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({"binding:vif_type": "binding_failed", "binding:host_id": "h1"}, ["bad", "binding failed"]),
        ({"binding:vif_type": "unbound", "binding:host_id": ""}, ["unknown", "not bound"]),
        ({"binding:vif_type": "ovs", "binding:host_id": "h1"}, ["warn", "down"]),
        ({"binding:vif_type": "ovs", "binding:host_id": "h1", "status": "ACTIVE"}, ["ok", "active"]),
        (
            {"binding:vif_type": "ovs", "binding:host_id": "late", "status": "ACTIVE"},
            ["unknown", "its host does not report"],
        ),
        ({"admin_state_up": False, "binding:vif_type": "binding_failed"}, ["off", "administratively down"]),
        ({}, ["warn", "down"]),
    ],
)
def test_states_of_ports(page: Page, values: dict[str, Any], state: list[str]) -> None:
    """A failed binding, a port without a host, and a bound port that is down are three things."""
    port = {"id": "p", "status": "DOWN", "admin_state_up": True, **values}
    facts = "{findings: new Map(), silent: new Set(['late'])}"
    code = f"import('/ui/js/data/states.js').then((m) => m.stateOf('port', {_js(port)}, {facts}))"
    assert page.evaluate(code) == state


def test_the_server_decides_the_state_of_a_router(page: Page) -> None:
    """Its own status is ACTIVE also if no host serves it."""
    problem = finding(
        "router-not-scheduled", "router edge (r): no L3 agent hosts it", resource_type="router", resource_id="r"
    )
    code = (
        "import('/ui/js/data/states.js').then((m) => m.stateOf('router', {id: 'r', status: 'ACTIVE', admin_state_up: true},"
        f" {{findings: m.indexFindings({_js({'problems': [problem]})}), silent: new Set()}}))"
    )
    assert page.evaluate(code) == ["bad", "no L3 agent hosts it"]


def test_the_path_of_a_trace(page: Page) -> None:
    trace = {
        "verdict": "delivered",
        "source_port_id": "a",
        "destination_port_id": "b",
        "steps": [
            {"resource_type": "port", "resource_id": "a"},
            {"resource_type": "security_group", "resource_id": "g"},
            {"resource_type": "network", "resource_id": "n1"},
            {"resource_type": "router", "resource_id": "r"},
            {"resource_type": "subnet", "resource_id": "s2"},
            {"resource_type": "port", "resource_id": "b"},
        ],
    }
    found = page.evaluate(PATH.replace("TRACE", _js(trace)))
    assert found["keys"] == ["port:a", "network:n1", "router:r", "network:n2", "port:b"]
    assert found["steps"] == {"port:a": [1], "network:n1": [3], "router:r": [4], "network:n2": [5], "port:b": [6]}


# port a on n1, port b on n2, router r between them with a gateway on the network out, floating IP f of b.
PATH = """(async () => {
  const {pathOfTrace, leadsBetween, nodeOfStep} = await import('/ui/js/data/trace.js');
  const nodeKey = (kind, id) => kind === 'subnet' ? 'network:n2' : kind === 'floatingip' ? 'port:b'
    : ['port', 'network', 'router'].includes(kind) ? `${kind}:${id}` : '';
  const routers = new Map([['r', {id: 'r', gatewayId: 'out', networkIds: ['n1', 'n2']}]]);
  const port = (id) => ({a: {network_id: 'n1'}, b: {network_id: 'n2'}})[id];
  const store = {get: (kind, id) => kind === 'floatingip' ? {router_id: 'r'} : undefined};
  return pathOfTrace(TRACE, {nodeOf: nodeOfStep(store, nodeKey), between: leadsBetween({routers}, port)});
})()"""


def test_the_path_to_a_floating_ip(page: Page) -> None:
    """By the external network to the router, which translates, and to the port; with the numbers of the list."""
    steps = [
        ("network", "out"),
        ("router", "r"),
        ("floatingip", "f"),
        ("router", "r"),
        ("security_group", "g"),
        ("port", "b"),
    ]
    trace = {
        "verdict": "dropped",
        "source": "external",
        "steps": [{"resource_type": kind, "resource_id": key} for kind, key in steps],
    }
    found = page.evaluate(PATH.replace("TRACE", _js(trace)))
    assert found["keys"] == ["network:out", "router:r", "network:n2", "port:b"]
    assert found["steps"] == {"network:out": [1], "router:r": [2, 3, 4], "port:b": [6]}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("web (10.0.0.1) on n, p #bbbbbbbb", ["bbbbbbbb-2"]),
        ("aaaaaaaa-1", ["aaaaaaaa-1"]),
        ("web", ["aaaaaaaa-1", "bbbbbbbb-2"]),
        ("DB", ["cccccccc-3"]),
        ("fa:16:3E:00:00:03", ["cccccccc-3"]),
        ("cccc", ["cccccccc-3"]),
        ("nobody", []),
    ],
)
def test_ends_of_a_trace(page: Page, text: str, ids: list[str]) -> None:
    """Ports may have equal names and addresses: their texts differ by the start of the id."""
    rows = [
        {"id": key, "name": name, "mac_address": f"fa:16:3e:00:00:0{key[-1]}", "network_id": "n", "project_id": "p",
         "fixed_ips": [{"ip_address": "10.0.0.1"}]}
        for key, name in (("aaaaaaaa-1", "web"), ("bbbbbbbb-2", "web"), ("cccccccc-3", "db"))
    ]  # fmt: skip
    ports = f"new Map({_js([[row['id'], row] for row in rows])})"
    code = f"import('/ui/js/data/trace.js').then((m) => m.findPorts({_js(text)}, {ports}).map((port) => port.id))"
    assert page.evaluate(code) == ids
    tables = "{network: new Map([['n', {id: 'n', name: 'n'}]])}"
    each = f"[...{ports}.values()].map((port) => m.portText(port, {tables}, (id) => id))"
    assert page.evaluate(f"import('/ui/js/data/trace.js').then((m) => {each})")[1] == "web (10.0.0.1) on n, p #bbbbbbbb"


def test_networks_of_ha_routers_are_no_project(page: Page) -> None:
    network = {"id": "n", "name": "HA network tenant 0f1e", "project_id": ""}
    tables = ", ".join(f"{kind}: new Map()" for kind in ("subnet", "router", "port", "floatingip"))
    code = (
        "(async () => { const {buildTopology} = await import('/ui/js/data/topology.js');"
        " const {buildScene} = await import('/ui/js/graph/scene.js');"
        f" const topology = buildTopology({{network: new Map([['n', {_js(network)}]]), {tables}}});"
        " return [topology.projects, buildScene(topology, {}).regions.length]; })()"
    )
    assert page.evaluate(code) == [[], 0]


def _js(value: Any) -> str:
    return json.dumps(value)


def test_usage_counted_from_ports(page: Page) -> None:
    """Of a network of another project only the caller's own ports are visible, which is said."""
    tables = (
        "{network: new Map([['n', {id: 'n', project_id: 'mine'}], ['o', {id: 'o', project_id: 'other'}]]),"
        "subnet: new Map(['n', 'o'].map((id) => [`s${id}`, {id: `s${id}`, network_id: id,"
        " allocation_pools: [{start: '10.0.0.2', end: '10.0.0.5'}]}])),"
        "port: new Map([['a', {id: 'a', fixed_ips: [{subnet_id: 'sn', ip_address: '10.0.0.1'}]}],"
        " ['b', {id: 'b', fixed_ips: [{subnet_id: 'sn', ip_address: '10.0.0.2'}]}]])}"
    )
    shown = "(each) => [each.id, String(each.used), String(each.total), each.ratio, each.source]"
    code = f"import('/ui/js/data/usage.js').then((m) => m.subnetUsage({tables}, ARGUMENTS).map({shown}))"
    assert page.evaluate(code.replace("ARGUMENTS", "null, 'mine'")) == [
        ["sn", "2", "4", 0.5, "ports"],
        ["so", "0", "4", 0, "partial"],
    ]
    reported = _js([{"subnet_ip_availability": [{"subnet_id": "so", "used_ips": 4, "total_ips": 4}]}])
    assert page.evaluate(code.replace("ARGUMENTS", f"{reported}, null"))[1] == ["so", "4", "4", 1, "server"]
    assert [page.module("js/data/usage.js", "level", ratio) for ratio in (0, 0.8, 0.95, 1)] == [
        "ok",
        "high",
        "almost full",
        "full",
    ]
