"""The nftables table that is ours in a namespace: translation of addresses, and filters."""
