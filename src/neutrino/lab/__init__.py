"""Several hosts on one machine, in namespaces: for users to try the service, and for the tests."""
