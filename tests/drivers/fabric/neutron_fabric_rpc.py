"""A driver that imports what is not provided."""

from neutron.agent import rpc

Missing = rpc
