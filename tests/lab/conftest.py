"""One lab of three hosts for the session. Each test finds it clean, with everything running."""

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from tests.support.lab import clean, log_sizes, logs_since, restricted_datapaths, temporary_lab
from tests.support.lab_control import Lab
from tests.support.routing_lab import Object, floating_ip

_SIZES = pytest.StashKey[dict[str, int]]()


@pytest.fixture(scope="session")
def session_lab() -> Iterator[Lab]:
    # These tests are about L2; the other roles have labs of their own, with what they need.
    with temporary_lab(hosts=3, roles=("l2",)) as lab:
        yield lab


@pytest.fixture(scope="module", params=[True, False], ids=["all features", "kernel's features"])
def datapaths(session_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The session's lab, as it is and with datapaths that can do no more than the kernel's."""
    with contextlib.nullcontext() if request.param else restricted_datapaths(session_lab):
        yield session_lab


@pytest.fixture
def lab(session_lab: Lab) -> Iterator[Lab]:
    """`lab.vm`, `lab.run`, `lab.api`, …: see `neutrino.lab.lab`, and `tests.support.lab` for helpers of tests."""
    yield session_lab
    clean(session_lab)


@pytest.fixture
def public(site: Any) -> Iterator[Callable[[str], Object]]:
    """Floating IPs for the time of a test, by the VM that they are in front of. `site` is the test module's own."""
    made: list[str] = []

    def put_before(name: str) -> Object:
        found = floating_ip(site.lab, site.out, site[name].port_id)
        made.append(found["id"])
        return found

    yield put_before
    for key in made:
        site.lab.api.delete("floatingip", key)


def _lab_of(item: pytest.Item) -> Lab | None:
    """The lab that the test has, itself or in what a fixture built in it."""
    for value in getattr(item, "funcargs", {}).values():
        lab = value if isinstance(value, Lab) else getattr(value, "lab", None)
        if isinstance(lab, Lab):
            return lab
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    if (lab := _lab_of(item)) is not None:
        item.stash[_SIZES] = log_sizes(lab)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what the agents and the server wrote meanwhile."""
    report = yield
    lab = _lab_of(item)
    if report.failed and lab is not None and _SIZES in item.stash:
        for name, text in logs_since(lab, item.stash[_SIZES]).items():
            report.sections.append((f"log of {name}", text))
    return report
