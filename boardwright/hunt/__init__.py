"""Device memory without the card: a PCI BAR in the emulated board, and the programs that are tried on it."""
