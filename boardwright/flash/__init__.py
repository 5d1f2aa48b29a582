"""From an image to a card: which device, what is written to it, and what it holds afterwards."""
