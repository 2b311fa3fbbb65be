"""`make vhost-user`: Open vSwitch with DPDK, and QEMU guests on vhost-user ports."""
