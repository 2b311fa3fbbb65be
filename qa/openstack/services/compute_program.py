"""nova-compute for guests on aarch64 that QEMU boots without firmware, run by the Python of OpenStack's environment.

Nova has no property to leave ACPI out, and libvirt refuses ACPI on aarch64 without UEFI. With UEFI, Nova 34 writes
<loader secure="no"> beside the choice of the firmware by libvirt, which libvirt 9.0 (Debian 12) refuses, and the firmware
alone takes an emulated guest half a minute. Nothing of this concerns the network.
"""

import sys
from typing import Any

from nova.cmd import compute  # type: ignore[import-not-found]
from nova.virt.libvirt import config, driver  # type: ignore[import-not-found]

set_features = driver.LibvirtDriver._set_features


def without_acpi(self: Any, guest: Any, *arguments: Any) -> None:
    set_features(self, guest, *arguments)
    if guest.os_arch == "aarch64" and guest.os_firmware is None:
        guest.features = [each for each in guest.features if not isinstance(each, config.LibvirtConfigGuestFeatureACPI)]


driver.LibvirtDriver._set_features = without_acpi

if __name__ == "__main__":
    sys.exit(compute.main())
