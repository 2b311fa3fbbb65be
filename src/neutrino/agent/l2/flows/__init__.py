"""Renderers: each turns one kind of desired thing into flows, and knows nothing of what is on the bridge."""
