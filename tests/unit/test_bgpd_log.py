"""The log of bgpd, which may run for years: bounded, and never by way of a link that bgpd's user could make."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from neutrino.agent.bgp.bgpd import KEPT_LOG, LOG, MAX_LOG, Bgpd

SPEAKER = "speaker"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / SPEAKER).mkdir()
    return tmp_path / SPEAKER / LOG


def bound(log: Path) -> None:
    Bgpd(str(log.parents[1]), "bgpd", "").bound_log(SPEAKER)


def test_its_last_lines_stay_and_bgpd_appends_to_them(log: Path) -> None:
    line = b"x" * 99 + b"\n"
    with open(log, "ab", buffering=0) as bgpd:
        bgpd.write(line * (MAX_LOG // 100 + 1) + b"the last\n")
        bound(log)
        text = log.read_bytes()
        assert text.startswith(line), "whole lines"
        assert text.endswith(b"the last\n")
        assert KEPT_LOG - 100 < len(text) <= KEPT_LOG
        bgpd.write(b"one more\n")
        assert log.read_bytes() == text + b"one more\n"
        bound(log)
        assert log.read_bytes() == text + b"one more\n", "a short one stays as it is"


def test_a_link_is_not_followed(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"x" * (MAX_LOG + 1))
    os.symlink(other, log)
    bound(log)
    assert other.stat().st_size == MAX_LOG + 1
    log.unlink()
    bound(log)
    assert not log.exists()
