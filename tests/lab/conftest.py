"""Labs that modules share, and logs of failed tests."""

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from neutrino.model.objects import Object
from tests.support.lab import log_sizes, logs_since, restricted_datapaths
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind, kind_of_module, unit_of_module
from tests.support.routing_lab import floating_ip
from tests.support.shared_labs import SharedLabs, lab_of_kind

_SIZES = pytest.StashKey[dict[str, int]]()
_LABS = pytest.StashKey[SharedLabs]()


@pytest.fixture(scope="session")
def shared_labs(pytestconfig: pytest.Config) -> Iterator[SharedLabs]:
    with contextlib.closing(SharedLabs()) as labs:
        pytestconfig.stash[_LABS] = labs
        yield labs


@pytest.fixture(scope="module")
def lab(shared_labs: SharedLabs, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The lab of the module's unit: `lab.vm`, `lab.run`, `lab.api`, …, see `neutrino.lab.lab`, and `tests.support.lab` for
    helpers of tests. The module finds it clean, with everything running. A module with other settings has them as LAB,
    and a lab of its own.
    """
    own: LabKind | None = getattr(request.module, "LAB", None)
    shared = kind_of_module(request.path.as_posix())
    kind = own or shared
    assert kind is not None, "the module neither has a LAB nor is it in a unit of tests/support/lab_kinds.py"
    with lab_of_kind(kind) if shared is None else shared_labs.lab(kind) as lab:
        yield lab


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Stop a shared lab after the last test of its unit in this worker."""
    yield
    if _LABS in item.config.stash and (nextitem is None or _unit(nextitem) != _unit(item)):
        item.config.stash[_LABS].close()


def _unit(item: pytest.Item) -> str | None:
    return unit_of_module(item.path.as_posix())


@pytest.fixture(scope="module", params=[True, False], ids=["all features", "kernel's features"])
def datapaths(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The shared lab, as it is and with datapaths that can do no more than the kernel's."""
    with contextlib.nullcontext() if request.param else restricted_datapaths(lab), cleaned(lab):
        yield lab


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
