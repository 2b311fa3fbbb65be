"""UNSET: the value of an attribute that was not given, as opposed to null."""

from enum import Enum
from typing import Final


class Unset(Enum):
    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset.UNSET
