"""What faults do to a site that runs as in production: one command breaks each part while people work.

    python -m tests.performance.faults
    python -m tests.performance.faults --only web-killed redis-dead
    python -m tests.performance.faults --report docs/operations.md

It makes its own PostgreSQL, Redis and pgbouncer on ports of their own and starts the processes by the units of
config/systemd, which a supervisor starts again as systemd does. People annotate through the pages and the API, a
manager orders exports and trainings. Each fault is brought about and mended; then the database is asked what was lost.
It needs Linux, PostgreSQL and Redis as Debian installs them, and root for what only root may do; a fault that cannot be
brought about is a row that says why. What is lost or ends badly makes exit code 1.
"""
