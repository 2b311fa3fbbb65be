"""The pages as a site with search and the API reference, offline: `make docs`."""
