"""Features: each has one home, and what is derived from their declarations holds for all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest

import neutrino
from neutrino.errors import OperatorError
from neutrino.server import features
from neutrino.server.db import tables as t
from neutrino.server.features import Feature

SOURCE = Path(neutrino.__file__).parent
MOST_FILES = 10  # of a feature with resources, tables, a part of a port, flows on hosts and a step of traces
INSTALLED = features.installed()
PER_OBJECT = {"router_route"}  # limits of each object of a project: nothing is counted
# Other things of the same name: the option `[ovs] local_ip` of agents, and the problem that names it.
OPTION = re.compile(r"\[ovs\] local_ip|ovs\.local_ip|options\.local_ip|\"local_ip\"(?=[:),\]])|self\.local_ip")


def files_of(pattern: str, ignored: re.Pattern[str]) -> list[str]:
    mention = re.compile(pattern)
    found = [path for path in SOURCE.rglob("*.py") if mention.search(ignored.sub("", path.read_text()))]
    return sorted(str(path.relative_to(SOURCE)) for path in found)


def test_local_ips_are_in_few_files() -> None:
    """The files that `ARCHITECTURE.md` lists in "How to add a feature"."""
    found = files_of(r"local_ips\b|local_ip_association|LocalIp|features\.local_ip|extensions\.local_ip", OPTION)
    assert len(found) <= MOST_FILES, found
    page = Path(SOURCE.parents[1], "ARCHITECTURE.md").read_text()
    listed = page.split("## How to add a feature", 1)[1]
    assert [path for path in found if path.split("/")[-1] not in listed and "local_ip" not in path] == []


@pytest.mark.parametrize("feature", INSTALLED, ids=lambda feature: feature.name)
def test_a_declaration_agrees_with_itself(feature: Feature) -> None:
    assert set(feature.quotas) - PER_OBJECT <= t.counted_rows().keys(), "quotas of no table"
    assert {name for name in feature.requires if name in {one.name for one in INSTALLED}} <= {
        one.name for one in INSTALLED[: INSTALLED.index(feature)]
    }
    in_the_api = feature.policy or feature.port_attributes or feature.network_attributes
    assert feature.extensions or not in_the_api, "without an alias, clients do not know that it is there"


PACKAGES = sorted(path.parent for path in SOURCE.glob("features/*/feature.py"))
IMPORT = re.compile(r"neutrino\.features\.(\w+)(?:\.(\w+))?(?: import (\w+))?")


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_features_import_each_other_as_declared(package: Path) -> None:
    """A feature imports those that it requires, and the tables of those that it reads."""
    declared = {one.name: path.name for path in PACKAGES for one in _features(path)}
    required = {declared[name] for one in _features(package) for name in _required(one)}
    read = {declared[name] for one in _features(package) for name in one.reads}
    for path in package.rglob("*.py"):
        for other, module, name in IMPORT.findall(path.read_text()):
            is_table = other in read and "tables" in (module, name)
            assert other in (package.name, *required) or is_table, f"{path.name} imports {other}"


def _features(package: Path) -> Sequence[Feature]:
    found: Sequence[Feature] = import_module(f"neutrino.features.{package.name}.feature").FEATURES
    return found


def _required(feature: Feature) -> set[str]:
    direct = [one for one in INSTALLED if one.name in feature.requires]
    return {*feature.requires, *(name for one in direct for name in _required(one))}


def test_no_two_features_declare_the_same() -> None:
    for names in (
        [feature.name for feature in INSTALLED],
        [alias.alias for feature in INSTALLED for alias in feature.extensions],
        [rule for feature in INSTALLED for rule in feature.policy],
        [quota for feature in INSTALLED for quota in feature.quotas],
        [kind.name for feature in INSTALLED for kind in feature.feed.kinds],
    ):
        assert len(names) == len(set(names)), names


def test_two_features_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    again = [_EntryPoint(INSTALLED[0])]
    monkeypatch.setattr(features.entry_points, "of_group", lambda group: again)
    with pytest.raises(OperatorError, match=f"called {INSTALLED[0].name}: uninstall one"):
        features.installed.__wrapped__()


class _EntryPoint:
    def __init__(self, feature: Feature) -> None:
        self._feature = feature

    def load(self) -> Feature:
        return self._feature
