"""The recorded exchanges on segments and segment ranges, replayed against a live server: all answers are alike."""

from __future__ import annotations

from tests.conformance.recording.exchange import RECORDING, read_recording
from tests.conformance.recording.replay import replay
from tests.conformance.server import RecordedServer

SEGMENTS = RECORDING.with_name("segments.jsonl")


def test_every_answer_is_alike() -> None:
    with RecordedServer() as server:
        report = replay(server.url, SEGMENTS)
    assert "\n".join(map(str, report.differing)) == ""
    assert len(report.outcomes) == len(read_recording(SEGMENTS)) == 24
