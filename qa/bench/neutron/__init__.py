"""OpenStack Neutron and this project on one machine in one run: `python -m qa.bench.neutron`.

`configuration` renders Neutron's files, `processes` runs it, `rounds` sends the load to both in turns, `table` compares.
"""
