"""The one channel between the server and the hosts: its messages, and the hosts' end of it."""
