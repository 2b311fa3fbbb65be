"""Compatibility with clients of OpenStack Networking. See docs/conformance.md."""
