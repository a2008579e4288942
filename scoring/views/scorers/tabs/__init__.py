"""The tabs of a scorer's page: each makes the context of its part."""
