"""Features: one package each. `neutrino.server.features` has their contract and finds them."""
