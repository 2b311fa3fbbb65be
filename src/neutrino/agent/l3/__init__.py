"""The L3 role: routers in namespaces, each of parts that are rendered, compared with what is there, and applied."""
