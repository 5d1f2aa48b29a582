"""One module a recipe kind: a pure function from recipe and board to steps."""
