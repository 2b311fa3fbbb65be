"""Traces compared with real packets at random."""
