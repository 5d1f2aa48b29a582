"""Patch series: which patches a source line gets, whether they apply, and how to work on them."""
