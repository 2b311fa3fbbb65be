"""keepalived: elects the active host of an HA router, and sets its addresses and routes there."""
