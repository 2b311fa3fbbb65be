"""neutrino: virtual networks for private clouds, behind OpenStack's Networking API v2.0."""

__version__ = "0.1.0"
