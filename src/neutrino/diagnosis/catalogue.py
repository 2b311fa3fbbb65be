"""The areas of the catalogue of problems, by title; docs/doctor.md is generated from them. Features bring further ones."""

from typing import Final

from neutrino.diagnosis import host_problems, machine_problems, object_problems, server_problems

AREAS: Final = {
    "Any machine": machine_problems.PROBLEMS,
    "Servers": server_problems.PROBLEMS,
    "Hosts": host_problems.PROBLEMS,
    "Objects and packets": object_problems.PROBLEMS,
}
