"""The channel between server and hosts: messages, addresses, and the client that host agents use."""
