"""conntrackd: hands the connections of an HA router over to the host that takes over."""
