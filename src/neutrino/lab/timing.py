"""The factor of all time-outs of a lab. Its one purpose is a lab in an emulated machine, which is many times slower."""

import os

VARIABLE = "NEUTRINO_LAB_TIME_FACTOR"
FACTOR = float(os.environ.get(VARIABLE, "1"))


def scaled(seconds: float) -> float:
    return seconds * FACTOR
