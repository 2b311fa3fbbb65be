"""Check of the cards of the role sriov: their devices, and that they have virtual functions."""

from collections.abc import Iterator

from neutrino.agent.sriov.config import sriov_options
from neutrino.cli.doctor.subject import Subject
from neutrino.diagnosis import host_problems
from neutrino.diagnosis.problems import Finding

_DEVICE = "/sys/class/net"


def cards(subject: Subject) -> Iterator[Finding]:
    if "sriov" not in subject.conf.roles:
        return
    for device in sriov_options(subject.conf).devices:
        if subject.machine.read(f"{_DEVICE}/{device}/ifindex") is None:
            yield host_problems.SRIOV_CARD_FAULTY(f"{device} of physical_device_mappings is not there")
            continue
        number = subject.machine.read(f"{_DEVICE}/{device}/device/sriov_numvfs")
        if number is None or number.strip() == "0":
            what = "is no SR-IOV card" if number is None else "has no VFs"
            yield host_problems.SRIOV_CARD_WITHOUT_FUNCTIONS(f"{device} of physical_device_mappings {what}")
