"""Real Neutron for the takeover: `record` writes the data of its tests, `bench_import` measures the import."""
