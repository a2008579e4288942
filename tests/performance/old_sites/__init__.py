"""Whether sites of an earlier version come through ``migrate`` with every page, hash and receipt."""
