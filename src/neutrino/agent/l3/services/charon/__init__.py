"""IPsec tunnels of routers: one charon of strongSwan for each router that ends some."""
