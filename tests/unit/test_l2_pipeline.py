"""The tables as data: the numbers that operators know, and where packets may go."""

import pytest

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.pipeline import TABLES, Bridge, PipelineError, miss_flows

KNOWN = {
    Bridge.INTEGRATION: {0, 1, 2, 20, 23, 24, 25, 60, 71, 72, 73, 81, 82, 91, 92, 93, 94, 95, 96, 110},
    Bridge.TUNNEL: {0, 1, 2, 3, 4, 6, 9, 10, 20, 21, 22},
    Bridge.PHYSICAL: {0, 1, 2, 3},
}
BY_NAME = {(entry.bridge, entry.name): entry for entry in TABLES}


@pytest.mark.parametrize("bridge", Bridge)
def test_numbers(bridge):
    assert {entry.number for entry in TABLES if entry.bridge is bridge} == KNOWN[bridge]


@pytest.mark.parametrize("entry", TABLES, ids=lambda entry: entry.name)
def test_packets_only_go_forward(entry):
    for name in (*entry.next, entry.miss):
        if (entry.bridge, name) in BY_NAME:
            onward = BY_NAME[entry.bridge, name]
            assert onward.number > entry.number or onward is entry
        else:
            assert name in (pipeline.EXTENSIONS, pipeline.INGRESS, "drop", "NORMAL", pipeline.OUTPUT_TO_PORT)
    (missed,) = (flow for flow in miss_flows(entry.bridge) if flow.table == entry.number)
    assert (missed.priority, missed.match) == (0, "")


def test_a_table_leads_only_to_its_next_tables():
    with pytest.raises(PipelineError, match="MAC_SPOOFING does not lead to BASE_INGRESS"):
        pipeline.MAC_SPOOFING.flow(1, "", then=pipeline.BASE_INGRESS)
    with pytest.raises(PipelineError):
        pipeline.RULES_EGRESS.track(pipeline.RULES_INGRESS)
    with pytest.raises(PipelineError):
        pipeline.LOCAL_SWITCHING.flow(1, "", then=pipeline.PATCH)


def test_extension_tables_are_between_spoofing_and_transient():
    first, second = pipeline.extension_tables(["one", "two"])
    assert [(entry.number, entry.name) for entry in (first, second)] == [(50, "one"), (51, "two")]
    assert pipeline.MAC_SPOOFING.flow(1, "", then=first).actions == "resubmit(,50)"
    assert first.flow(1, "", then=second).actions == "resubmit(,51)"
    with pytest.raises(PipelineError, match="does not lead to one"):
        pipeline.BASE_EGRESS.flow(1, "", then=first)
    with pytest.raises(PipelineError, match="no table left for extension 10"):
        pipeline.extension_tables([str(number) for number in range(11)])
