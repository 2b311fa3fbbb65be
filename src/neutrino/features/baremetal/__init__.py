"""Bare-metal nodes as agents: what Ironic's agent for Neutron (`ironic-neutron-agent`) reports."""
