"""The tables as data: what operators know them by, and where packets may go."""

import pytest

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.pipeline import Bridge, PipelineError, table, tables_of

KNOWN = {
    Bridge.INTEGRATION: {0, 1, 2, 23, 24, 25, 60, 71, 72, 73, 81, 82, 91, 92, 93, 94},
    Bridge.TUNNEL: {0, 1, 2, 3, 4, 6, 9, 10, 20, 21, 22},
    Bridge.PHYSICAL: {0, 1, 2, 3},
}


@pytest.mark.parametrize("bridge", Bridge)
def test_numbers(bridge):
    assert {entry.number for entry in tables_of(bridge)} == KNOWN[bridge]


@pytest.mark.parametrize("entry", pipeline.TABLES, ids=lambda entry: entry.name)
def test_packets_only_go_forward(entry):
    for name in entry.next:
        onward = table(entry.bridge, name)
        assert onward.number > entry.number or onward is entry
    missed = entry.miss_flow()
    assert (missed.priority, missed.match) == (0, "")


def test_a_table_leads_only_where_it_says():
    with pytest.raises(PipelineError, match="MAC_SPOOFING does not lead to BASE_INGRESS"):
        pipeline.MAC_SPOOFING.flow(1, "", then=pipeline.BASE_INGRESS)
    with pytest.raises(PipelineError):
        pipeline.RULES_EGRESS.track(pipeline.RULES_INGRESS)
    with pytest.raises(PipelineError):
        pipeline.LOCAL_SWITCHING.flow(1, "", then=pipeline.PATCH)
    with pytest.raises(PipelineError, match="no table NOWHERE"):
        table(Bridge.TUNNEL, "NOWHERE")
