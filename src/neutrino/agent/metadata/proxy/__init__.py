"""The metadata proxy process: unprivileged, one per host, serves all namespaces."""
