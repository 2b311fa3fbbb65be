"""Network namespaces and what is in them: devices, addresses, routes, rules, neighbours, settings of the kernel."""
