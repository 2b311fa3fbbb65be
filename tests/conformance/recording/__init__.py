"""Exchanges with OpenStack Neutron 29.0, kept as data, and the means to put them to another server.

Clients written for Neutron rely on more than its reference documents: which fields come back, which status and error type a
refusal has. The recording holds that, so that a change here which those clients would notice fails a test.
"""
