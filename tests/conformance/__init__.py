"""Whether clients written for OpenStack Networking find here what they know from there. See docs/conformance.md."""
