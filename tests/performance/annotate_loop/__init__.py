"""A load generator for the annotation loop: people over HTTP against the real server, on a database made for it.

    python -m tests.performance.annotate_loop loop  --database postgres://HOST/NAME --via api
    python -m tests.performance.annotate_loop drain --database postgres://HOST/NAME --tasks 150 --rounds 20
    python -m tests.performance.annotate_loop probe --database postgres://HOST/NAME

Whether all was right is counted from the database afterwards, never by the client; what is wrong makes exit code 1.
"""
