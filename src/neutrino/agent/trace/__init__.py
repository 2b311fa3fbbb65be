"""What the dataplane of this host would do with a packet now. Read-only."""
