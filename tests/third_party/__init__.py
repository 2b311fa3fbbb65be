"""Packages of third parties, as the tests install them."""
