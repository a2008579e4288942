"""Sentences of generated documents that state how something was done, and how many of them no stored fact bears.

Batches of each origin are made at random, each with its datasheet and its reports in both languages, or with
``--results`` a scorer of its gold and a board, with their pages, reports and files; every registered sentence
(``tests/documents/claims.py``, ``result_claims.py``) that stands in one of them is held against the tables.

  python -m tests.performance.document_claims [--seeds 5] [--results] [--show]

It makes a database of its own and drops it again. "different" counts the English sentences that are false at least
once, each of them once.
"""

from __future__ import annotations

import argparse
import logging
import os


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--show", action="store_true", help="print each false sentence once")
    parser.add_argument("--results", action="store_true", help="search scorers' cards and boards")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    logging.disable(logging.WARNING)
    from django.db import connection, transaction

    from tests.documents.result_search import RESULT_ORIGINS, search_results
    from tests.documents.search import ORIGINS, search_origin

    origins, search = (RESULT_ORIGINS, search_results) if options.results else (ORIGINS, search_origin)
    connection.creation.create_test_db(verbosity=0)
    print(f"{'origin':32} {'batches':>8} {'sentences':>10} {'false':>6} {'different':>10}")
    try:
        for origin in origins:
            total, false, messages = 0, 0, {}
            for seed in range(1, options.seeds + 1):
                with transaction.atomic():
                    count, sentences = search(origin, seed)
                    transaction.set_rollback(True)
                total, false = total + count, false + len(sentences)
                messages |= {
                    sentence.message: sentence for sentence in sentences if sentence.language == "en"
                }
            print(f"{origin:32} {options.seeds:8} {total:10} {false:6} {len(messages):10}", flush=True)
            for sentence in messages.values() if options.show else ():
                print(f"    {sentence.document}: {sentence.text[:150]}")
    finally:
        connection.creation.destroy_test_db(":memory:", verbosity=0)


if __name__ == "__main__":
    main()
