"""Benchmarks of the server, measured by a client, compared with OpenStack Neutron.

`load` is the work, put to any server; `run` starts servers on real databases and puts it to them; `report` makes the
tables. Nothing here imports the server's code: what is measured is what a client sees.
"""
