"""Probes: packets that are sent for an instance through the switch, and their answers, to measure loss."""
