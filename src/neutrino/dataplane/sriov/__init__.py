"""SR-IOV cards: reads and sets their virtual functions."""
