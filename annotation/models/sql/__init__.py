"""All SQL of this app that the ORM does not write; no other folder has any, but for the migrations.

A statement stands here where the ORM costs the annotation loop too much (docs/decisions/plain-sql-in-the-loop.md), or
where it cannot say the same. Each function says what it fetches or writes. Functions that give a ``Statement`` write
nothing yet: their caller sends several of them in one round trip (``annotation.core.sql.execute``).

Values are always parameters. Tables, slots and states come from the models and their constraints.
"""
