"""Benchmark of the dataplane: the same switches and instances with Neutron's flows and with ours."""
