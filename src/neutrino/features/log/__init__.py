"""Logs of security groups: accepted connections and dropped packets that hosts write down."""
