"""Takeover of a running Neutron: check and import of its database, comparison of API answers.

`source` reads Neutron's database, `families` say how its rows become ours, `writer` writes the differences, `deviations`
has what was refused, repaired or left out, `report` shows it. docs/design/takeover.md describes the whole.
"""
