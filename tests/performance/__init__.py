"""Measurements and comparisons that are run by hand, not by ``./run test``."""
