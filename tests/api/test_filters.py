"""Filters of a site: found by entry point or factory, in the configured order, with their options; Neutron's pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from neutrino import entry_points
from neutrino.errors import RefusedToStart
from neutrino.server import filters
from neutrino.server.main import Server
from tests.api.client import Api

CONTRIB = Path(__file__).parents[2] / "contrib" / "filters"
HERE = "tests.api.test_filters"
PASTE = """
[composite:neutron]
use = egg:Paste#urlmap
/: versions
/v2.0: api
[composite:api]
use = call:neutron.auth:pipeline_factory
noauth = cors request_id catch_errors {before} authtoken keystonecontext {after} extensions neutronapiapp_v2_0
keystone = cors authtoken
[filter:cors]
paste.filter_factory = oslo_middleware.cors:filter_factory
[filter:request_id]
paste.filter_factory = oslo_middleware:RequestId.factory
[filter:catch_errors]
paste.filter_factory = oslo_middleware:CatchErrors.factory
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
[filter:keystonecontext]
paste.filter_factory = neutron.auth:NeutronKeystoneContext.factory
[filter:extensions]
paste.filter_factory = neutron.api.extensions:plugin_aware_extension_middleware_factory
[filter:audit]
paste.filter_factory = keystonemiddleware.audit:filter_factory
ignore_req_list = GET
[filter:vendor]
paste.filter_factory = vendor.limits:factory
[app:neutronapiapp_v2_0]
paste.app_factory = neutron.api.v2.router:APIRouter.factory
"""
Application = Callable[..., Iterable[bytes]]


def marking(global_conf: dict[str, str], mark: str = "", **_: str) -> Callable[[Application], Application]:
    """A filter that adds its mark to a header of the answer: the innermost one first."""

    def filtered(app: Application) -> Application:
        def call(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
                old = dict(headers).get("X-Marks", "")
                return start_response(
                    status, [h for h in headers if h[0] != "X-Marks"] + [("X-Marks", old + mark)], *more
                )

            return app(environ, start)

        return call

    return filtered


def failing(global_conf: dict[str, str], **_: str) -> Callable[[Application], Application]:
    def call(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        raise RuntimeError("secret detail")

    return lambda app: call


def failing_generator(global_conf: dict[str, str], **_: str) -> Callable[[Application], Application]:
    """Its body runs when the answer is read."""

    def filtered(app: Application) -> Application:
        def call(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if environ["PATH_INFO"] == "/v2.0/networks":
                raise RuntimeError("secret detail")
            yield from app(environ, start_response)

        return call

    return filtered


def refusing(global_conf: dict[str, str], **options: str) -> Callable[[Application], Application]:
    raise ValueError(f"option missing, of {sorted(options)}")


def marked(name: str, **more: str) -> dict[str, dict[str, str]]:
    return {f"filter:{name}": {"paste.filter_factory": f"{HERE}:marking", "mark": name, **more}}


def test_filters_are_applied_in_the_configured_order(another_server: Callable[..., Server]) -> None:
    for order, marks in (("a,b", "ba"), ("b,a", "ab"), ("b,authtoken,a", "ab")):
        server = another_server({"DEFAULT": {"api_filters": order}, **marked("a"), **marked("b")})
        answer = Api(server.app).get("/networks").expect(200)
        assert answer.headers["X-Marks"] == marks, order
    assert ("filter:a", "mark") in server.conf.registered, "not reported as unknown"


def test_a_filter_is_found_by_its_entry_point(
    another_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [EntryPoint("site", f"{HERE}:marking", "paste.filter_factory")]
    real = entry_points.of_group
    monkeypatch.setattr(
        entry_points,
        "of_group",
        lambda group: EntryPoints(found) if group == "paste.filter_factory" else real(group),
    )
    settings = {"DEFAULT": {"api_filters": "site"}, "filter:site": {"mark": "x"}}
    assert Api(another_server(settings).app).get("/networks").headers["X-Marks"] == "x"
    found.append(EntryPoint("site", f"{HERE}:failing", "paste.filter_factory"))
    with pytest.raises(RefusedToStart, match="several packages offer site"):
        another_server(settings)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"DEFAULT": {"api_filters": "nothing"}}, "no installed package offers nothing"),
        ({"DEFAULT": {"api_filters": "a,a"}, **marked("a")}, "a more than once"),
        (
            {"DEFAULT": {"api_filters": "a"}, "filter:a": {"paste.filter_factory": "no.such:thing"}},
            "a cannot be loaded: No module named 'no'",
        ),
        (
            {"DEFAULT": {"api_filters": "a"}, "filter:a": {"paste.filter_factory": f"{HERE}:refusing", "level": "1"}},
            r"a cannot be built: option missing, of \['level'\]",
        ),
    ],
)
def test_a_filter_that_cannot_be_used_refuses_the_start(
    another_server: Callable[..., Server], settings: Any, refusal: str
) -> None:
    with pytest.raises(RefusedToStart, match=rf"\[DEFAULT\] api_filters: {refusal}"):
        another_server(settings)


@pytest.mark.parametrize("factory", ["failing", "failing_generator"])
def test_a_filter_that_fails_is_named_in_the_log_alone(
    another_server: Callable[..., Server], caplog: pytest.LogCaptureFixture, factory: str
) -> None:
    section = {"filter:broken": {"paste.filter_factory": f"{HERE}:{factory}"}}
    answer = Api(another_server({"DEFAULT": {"api_filters": "broken"}, **section}).app).get("/networks")
    assert answer.status == 500
    assert answer.body["NeutronError"]["message"] == "A filter of this site failed."
    assert "the filter broken failed" in caplog.text


def test_a_filter_that_is_a_generator(another_server: Callable[..., Server]) -> None:
    section = {"filter:site": {"paste.filter_factory": f"{HERE}:failing_generator"}}
    api = Api(another_server({"DEFAULT": {"api_filters": "site"}, **section}).app)
    assert api.get("/subnets").expect(200).body == {"subnets": []}
    api.delete("/subnets/00000000-0000-4000-8000-000000000000").refused(404, "SubnetNotFound")


def paste(tmp_path: Path, before: str = "", after: str = "") -> dict[str, dict[str, str]]:
    path = tmp_path / "api-paste.ini"
    path.write_text(PASTE.format(before=before, after=after))
    return {"DEFAULT": {"api_paste_config": str(path)}}


def test_a_pipeline_of_neutron(another_server: Callable[..., Server], tmp_path: Path) -> None:
    assert filters.read_filters(another_server(paste(tmp_path)).conf) == filters.Filters([], [])
    server = another_server(paste(tmp_path, after="audit"))
    (audit,) = filters.read_filters(server.conf).inside
    assert (audit.name, audit.options["ignore_req_list"]) == ("audit", "GET")
    with pytest.raises(RefusedToStart, match=r"filters that are not known: vendor \(vendor.limits:factory\)"):
        another_server(paste(tmp_path, before="vendor"))
    settings = paste(tmp_path, before="vendor")
    settings["DEFAULT"]["api_filters"] = "a"
    answer = Api(another_server({**settings, **marked("a")}).app).get("/networks")
    assert answer.headers["X-Marks"] == "a", "api_filters goes before"
    missing = str(tmp_path / "none.ini")
    with pytest.raises(RefusedToStart, match=r"none\.ini cannot be read"):
        another_server({"DEFAULT": {"api_paste_config": missing}})
    another_server({"DEFAULT": {"api_paste_config": "api-paste.ini"}})  # Neutron's default, which was not copied


def test_the_rate_limit_of_contrib(another_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(CONTRIB)
    limit = {
        "paste.filter_factory": "rate_limit:filter_factory",
        "per_second": "0.01",
        "burst": "3",
        "exempt_roles": "nova",
    }
    app = another_server({"DEFAULT": {"api_filters": "rate_limit"}, "filter:rate_limit": limit}).app
    busy, other = Api(app), Api(app)
    assert [busy.get("/networks").status for _ in range(5)] == [200, 200, 200, 429, 429]
    answer = busy.get("/networks")
    assert answer.body["NeutronError"]["type"] == "TooManyRequests"
    assert 0 < int(answer.headers["Retry-After"]) <= 100
    assert other.get("/networks").status == 200, "each project has its own"
