"""All problems, by their ids. docs/doctor.md is generated from them."""

from collections.abc import Mapping
from typing import Final

from neutrino.diagnosis import host_problems, machine_problems, object_problems, server_problems
from neutrino.diagnosis.problems import Problem, combine

CATALOGUE: Final[Mapping[str, Problem]] = combine(
    machine_problems.PROBLEMS, server_problems.PROBLEMS, host_problems.PROBLEMS, object_problems.PROBLEMS
)
