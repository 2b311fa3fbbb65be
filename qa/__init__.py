"""What `make test` does not run, each a command of its own: benchmarks, OpenStack, the kernel datapath, chaos and soak."""
