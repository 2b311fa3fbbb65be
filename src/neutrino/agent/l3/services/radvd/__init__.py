"""radvd: sends a router's RAs."""
