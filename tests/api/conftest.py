"""A server for each database, built in the test's own process; every module of tests has a database of its own.

Tests run on SQLite, PostgreSQL and MariaDB, except those of the modules in `SQLITE_ONLY`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neutrino.server.config import configuration
from neutrino.server.main import Server, assemble, begin
from tests.api.client import Api

DATABASES = [
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
]
# Modules whose outcome does not depend on the database. Transactions, locks, constraints, JSON, order, comparison of texts
# and filters do: what tests them runs on all three.
SQLITE_ONLY = frozenset(
    {
        # Refused before the database is asked; what each database makes of odd values: test_odd_values.
        "test_bad_addresses",
        "test_bad_input",
        "test_limits",
        "test_web_pages",
        # Documents, policies and events, made of objects that were read by queries which other tests cover.
        "test_notifications",
        "test_openapi",
        "test_policy_checks",
        "test_policy_recipes",
        "test_service_plugins",
        "test_traces",
        # Decisions on stored objects; on each database: test_dhcp_at_once and test_delegation_at_once of tests/faults,
        # tests/functional/test_delegation_feed, test_qos_use.
        "test_dhcp_active",
        "test_dhcp_placement",
        "test_prefix_delegation",
        "test_qos_rules",
    }
)
FIXTURES = {"postgresql": "postgres", "mariadb": "mariadb"}
SETTINGS: dict[str, dict[str, str]] = {
    "DEFAULT": {"auth_strategy": "noauth", "host": "server-1", "dns_domain": "example.org.", "agent_down_time": "75"},
    "ml2": {"project_network_types": "vxlan", "mechanism_drivers": "openvswitch,l2population,sriovnicswitch"},
    "ml2_type_vlan": {"network_vlan_ranges": "physnet1:100:199,physnet2:1:10"},
    "ml2_type_vxlan": {"vni_ranges": "1:16000"},
    "quotas": {"quota_security_group": "10", "quota_security_group_rule": "100"},
}
Settings = dict[str, dict[str, str]]


def new_database(request: pytest.FixtureRequest, kind: str, directory: Path) -> str:
    """The URL of an empty database."""
    name = f"api_{uuid.uuid4().hex}"
    if kind == "sqlite":
        return f"sqlite:///{directory}/{name}.sqlite"
    url: str = request.getfixturevalue(FIXTURES[kind]).create_database(name)
    return url


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
    if "database" in metafunc.fixturenames and metafunc.definition.path.stem in SQLITE_ONLY:
        metafunc.definition.add_marker(pytest.mark.parametrize("database", ["sqlite"], indirect=True, scope="module"))


@pytest.fixture(scope="module", params=DATABASES)
def database(request: pytest.FixtureRequest) -> str:
    """The kind of database: each test runs on all of them, unless its module is in `SQLITE_ONLY`."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("server")
    made = start(directory, new_database(request, database, directory))
    yield made
    made.close()


@pytest.fixture
def another_server(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Servers with settings of their own, each on a new database unless it is given one."""
    made: list[Server] = []

    def make(more: Settings | None = None, url: str | None = None) -> Server:
        made.append(start(tmp_path, url or new_database(request, database, tmp_path), more))
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
