"""The checks of `make openstack`: functions that raise CheckError, or return what they measured."""

from __future__ import annotations

from collections.abc import Callable

from tests.openstack.checks import boot
from tests.openstack.cloud import Cloud

Check = Callable[[Cloud], str]

# In the order in which they run. Each makes what it needs and removes it, so that any of them can run alone.
CHECKS: dict[str, Check] = {
    "boot": boot.check_boot,
}
