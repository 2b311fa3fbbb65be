"""Wire formats of the kernel, of Open vSwitch and of strongSwan. Each module says why no library does it."""
