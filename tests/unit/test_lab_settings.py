"""Settings of labs."""

from __future__ import annotations

from pathlib import Path

import pytest

from neutrino.lab.settings import LabSettings, render_server
from neutrino.metrics import listener
from neutrino.server.config import configuration


@pytest.mark.parametrize(("port", "metrics"), [(9696, 9699), (9796, 9799), (65535, 65532)])
def test_labs_with_different_ports_have_metrics_of_their_own(tmp_path: Path, port: int, metrics: int) -> None:
    """The server of a second lab would leave its metrics out, as the first one has the address."""
    path = tmp_path / "server.conf"
    path.write_text(render_server(LabSettings(port=port), tmp_path, workers=1))
    assert listener.address(configuration([str(path)])) == ("127.0.0.1", metrics)
