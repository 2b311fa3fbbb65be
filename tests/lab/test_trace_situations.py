"""Traces compared with the fate of real packets, situation by situation: `tests/support/trace_situations/table.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.lab_control import Lab
from tests.support.lab_trace import check
from tests.support.trace_situations import site as cloud
from tests.support.trace_situations.table import SITUATIONS, S

LAB = cloud.LAB


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[cloud.Site]:
    with cloud.made_site(lab) as made:
        yield made


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_a_trace_agrees_with_real_packets(situation: S, site: cloud.Site) -> None:
    check(situation, site)
