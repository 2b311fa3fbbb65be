"""Trunks: a parent port, and subports whose packets an instance sends and receives on it with VLAN tags."""
