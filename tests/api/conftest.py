"""A server for each database, built in the test's own process; every module of tests has a database of its own.

A test runs on SQLite, unless a database could decide its outcome: by transactions, locks, unique keys, cascades, races,
JSON, order, comparison of texts, a query of its own. Such a test is marked `every_database`, or its module is listed in
`EVERY_DATABASE`, and it runs on PostgreSQL and MariaDB too. Validation, policies and decisions on objects that were read
already are the same code on each; `test_odd_values` writes and reads every table on all of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neutrino.server.config import configuration
from neutrino.server.main import Server, assemble, begin
from tests.api.client import Api
from tests.support.databases import DATABASES, prepared_database

# Modules whose tests all run on SQLite, PostgreSQL and MariaDB.
EVERY_DATABASE = frozenset(
    {
        "test_backup",
        "test_changes",  # the log, in one transaction with the change
        "test_firewall_races",
        "test_hidden_attributes",  # filters, order and pages of what a caller may not see
        "test_if_match",
        "test_lists",  # order, pages, NULL, comparison of texts
        "test_migrations",
        "test_odd_values",  # all tables, and what each database makes of values beyond its types
        "test_quotas",  # counters that are locked
        "test_sharing",  # the condition of visibility that each query has
        "test_tags",
        "test_transactions",
    }
)
SETTINGS: dict[str, dict[str, str]] = {
    "DEFAULT": {"auth_strategy": "noauth", "host": "server-1", "dns_domain": "example.org.", "agent_down_time": "75"},
    "ml2": {"project_network_types": "vxlan", "mechanism_drivers": "openvswitch,l2population,sriovnicswitch"},
    "ml2_type_vlan": {"network_vlan_ranges": "physnet1:100:199,physnet2:1:10"},
    "ml2_type_vxlan": {"vni_ranges": "1:16000"},
    "quotas": {"quota_security_group": "10", "quota_security_group_rule": "100"},
}
Settings = dict[str, dict[str, str]]


def start(directory: Path, url: str, more: Settings | None = None) -> Server:
    path = directory / f"neutrino-{uuid.uuid4().hex}.conf"
    path.write_text(configuration_text(url, more))
    server = assemble(configuration([str(path)]))
    begin(server)
    return server


def configuration_text(url: str, more: Settings | None = None) -> str:
    own: Settings = {"database": {"connection": url.replace("$", "$$")}}
    sections = {
        name: SETTINGS.get(name, {}) | own.get(name, {}) | (more or {}).get(name, {})
        for name in [*SETTINGS, *own, *(more or {})]
    }
    return "\n".join(
        f"[{name}]\n" + "\n".join(f"{key} = {value}" for key, value in options.items()) + "\n"
        for name, options in sections.items()
    )


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    test = metafunc.definition
    if "database" not in metafunc.fixturenames or test.path.stem in EVERY_DATABASE:
        return
    if test.get_closest_marker("every_database") is None:
        test.add_marker(pytest.mark.parametrize("database", ["sqlite"], indirect=True, scope="module"))


@pytest.fixture(scope="module", params=DATABASES)
def database(request: pytest.FixtureRequest) -> str:
    """The kind of database: SQLite, or each of them in turn for tests that concern databases."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("server")
    made = start(directory, prepared_database(request, database, directory))
    yield made
    made.close()


@pytest.fixture
def another_server(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Servers with settings of their own, each on a new database unless it is given one."""
    made: list[Server] = []

    def make(more: Settings | None = None, url: str | None = None) -> Server:
        made.append(start(tmp_path, url or prepared_database(request, database, tmp_path), more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def api(server: Server) -> Api:
    """A member of a project that has nothing yet."""
    return Api(server.app)


@pytest.fixture
def admin(api: Api) -> Api:
    """An administrator in the same project."""
    return api.as_admin()


def url_of(server: Server) -> str:
    return server.db.url.render_as_string(hide_password=False)
