"""The database of a real Open vSwitch through TLS: the driver and doctor's client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.cli.doctor.ovsdb_client import NotReachable, select
from neutrino.dataplane.ovsdb.api import ClientFiles, OvsdbError, SetBridge
from neutrino.dataplane.ovsdb.real import RealOvsdb
from tests.support.certificates import Authority
from tests.support.openvswitch import OpenVSwitch
from tests.support.ports import free_port
from tests.support.waiting import eventually

TRUSTED, STRANGER = Authority(), Authority()


def files(directory: Path, name: str, authority: Authority, trusted: Authority = TRUSTED) -> ClientFiles:
    """Key and certificate of one authority, and the one that is trusted."""
    pem, ca = directory / f"{name}.pem", directory / f"{name}-ca.pem"
    pem.write_text(authority.issue(name))
    ca.write_text(trusted.certificate)
    return ClientFiles(str(pem), str(pem), str(ca))


class EncryptedSwitch(OpenVSwitch):
    """Its database also listens on a port with TLS, for clients with a certificate."""

    def start(self) -> None:
        self.port = free_port()
        self.issue()
        super().start()

    def issue(self) -> None:
        """A new certificate, which the database reads at its start."""
        own = files(self.directory, "database", TRUSTED)
        self.database_options = (
            *(f"--remote=pssl:{self.port}:127.0.0.1", f"--private-key={own.key}"),
            *(f"--certificate={own.certificate}", f"--ca-cert={own.authority}"),
        )

    @property
    def encrypted(self) -> str:
        return f"ssl:127.0.0.1:{self.port}"


@pytest.fixture
def switch() -> Iterator[EncryptedSwitch]:
    with EncryptedSwitch() as running:
        yield running


def test_the_driver_reads_writes_and_reconnects(switch: EncryptedSwitch, tmp_path: Path) -> None:
    agent = files(tmp_path, "agent", TRUSTED)
    driver = RealOvsdb(switch.encrypted, tls=agent)
    try:
        driver.apply([SetBridge("br-one", datapath_type="dummy", fail_mode="secure")], wait=20)
        assert "br-one" in driver.read().bridges
        switch.vsctl("add-br", "br-two", "--", "set", "bridge", "br-two", "datapath_type=dummy")
        eventually(lambda: "br-two" in driver.read().bridges)
        # Renewed on both sides: the next connection uses the new files.
        switch.issue()
        files(tmp_path, "agent", TRUSTED)
        switch.restart_database()
        switch.vsctl("add-br", "br-three", "--", "set", "bridge", "br-three", "datapath_type=dummy")
        eventually(lambda: "br-three" in driver.read().bridges)
    finally:
        driver.close()
    rows = select(switch.encrypted, {"Bridge": ["name"]}, tls=agent)
    assert {row["name"] for row in rows["Bridge"]} == {"br-one", "br-two", "br-three"}


@pytest.mark.parametrize("who", ["client", "database"])
def test_whoever_has_no_certificate_of_the_authority_is_refused(
    switch: EncryptedSwitch, tmp_path: Path, who: str
) -> None:
    strange = (
        files(tmp_path, "stranger", STRANGER)
        if who == "client"
        else files(tmp_path, "agent", TRUSTED, trusted=STRANGER)
    )
    with pytest.raises(OvsdbError, match="ssl:127"):
        RealOvsdb(switch.encrypted, tls=strange, timeout=3)
    with pytest.raises(NotReachable):
        select(switch.encrypted, {"Bridge": ["name"]}, tls=strange)
    with pytest.raises(NotReachable):
        select(f"tcp:127.0.0.1:{switch.port}", {"Bridge": ["name"]}, seconds=1)
