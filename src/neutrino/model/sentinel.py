"""The one value that means "not given", told apart from null."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Unset(Enum):
    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset.UNSET
