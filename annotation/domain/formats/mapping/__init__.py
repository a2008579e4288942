"""Which column of a table is which field: guessed, said by a person, and applied to rows. Pure.

``guess.py`` knows the usual names of columns, ``mapping.py`` what a person says of them, ``check.py`` what may not be
missing or left over, ``apply.py`` makes of a row of the table the rows that a reader of records takes.
"""

from __future__ import annotations
