"""The SR-IOV role: sets the virtual functions of this host's cards that instances have, as their ports want them."""
