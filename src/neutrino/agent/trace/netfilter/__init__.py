"""Evaluators of netfilter rules, and connections. Pure."""
