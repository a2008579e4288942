"""Names for people in files that leave the site: the same within a release, and not to be guessed. Pure.

People are numbered in the order of HMAC-SHA256(secret of the site, scope + person), so a number tells nothing of a
name, of who joined first or of who labelled most; and another scope (another release) numbers the same people anew.
Whoever knows the secret can number them again, which is how one release names them alike in each of its files.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Mapping

DIGITS = 2


def assign_pseudonyms(people: Mapping[int, str], *, secret: str, scope: str) -> dict[int, str]:
    """``people`` are ids with the word for what each did: ``{7: "annotator"}`` gives ``{7: "annotator-01"}``.

    The numbers have as many digits as the largest needs, at least two.
    """
    by_word: dict[str, list[int]] = defaultdict(list)
    for person in sorted(people, key=lambda person_id: _rank_person(person_id, secret=secret, scope=scope)):
        by_word[people[person]].append(person)
    return {
        person: f"{word}-{number:0{max(DIGITS, len(str(len(same))))}d}"
        for word, same in by_word.items()
        for number, person in enumerate(same, 1)
    }


def _rank_person(person: int, *, secret: str, scope: str) -> bytes:
    return hmac.digest(secret.encode(), f"assay pseudonym\n{scope}\n{person}".encode(), hashlib.sha256)
