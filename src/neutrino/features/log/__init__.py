"""Logs of security groups and firewall groups: accepted connections and dropped packets that hosts write down."""
