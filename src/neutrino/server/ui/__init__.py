"""The topology page: static files, and the login to Keystone that a browser cannot do itself."""
