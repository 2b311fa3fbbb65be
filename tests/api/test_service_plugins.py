"""The option service_plugins: features that are enabled, those that they need, and those that no package has."""

from pathlib import Path

import pytest

from neutrino.errors import RefusedToStart
from tests.api.client import Api
from tests.api.conftest import start


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("nonesuch", r"\[DEFAULT\] service_plugins: no installed package has a feature called 'nonesuch'"),
        ("trunk,vpnaas", r"\[DEFAULT\] service_plugins: vpnaas needs router"),
    ],
)
def test_what_is_refused(tmp_path: Path, names: str, message: str) -> None:
    with pytest.raises(RefusedToStart, match=message):
        start(tmp_path, f"sqlite:///{tmp_path}/neutrino.sqlite", {"DEFAULT": {"service_plugins": names}})


def test_only_enabled_features_are_served(tmp_path: Path) -> None:
    settings = {"DEFAULT": {"service_plugins": "trunk"}}
    server = start(tmp_path, f"sqlite:///{tmp_path}/neutrino.sqlite", settings)
    api = Api(server.app).as_admin()
    aliases = {extension["alias"] for extension in api.get("/extensions").body["extensions"]}
    assert "trunk" in aliases
    assert not aliases & {"router", "qos", "vpnaas", "local_ip"}
    assert api.get("/trunks").expect(200).body == {"trunks": []}
    api.get("/routers").refused(404, "HTTPNotFound")
    server.close()
