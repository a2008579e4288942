"""Helpers that know no subject and no table."""
