"""Jobs of which nobody lives any more, as a command knows them that goes on where another was killed.

A worker's sweep finds them too, but only where there is a worker, and only once their beat is old.
"""

from __future__ import annotations

import os
import socket

from annotation.models import Job
from annotation.selectors.jobs import is_silent


def is_abandoned(job: Job) -> bool:
    """Whether its process gave the job back, its beat has stopped, or its process, if it was here, is gone."""
    if job.state == Job.State.QUEUED and job.attempt:
        return True
    if job.state != Job.State.RUNNING or job.heartbeat is None:
        return False
    if is_silent(job):
        return True
    host, _colon, process = job.worker.rpartition(":")
    return host == socket.gethostname() and process.isdecimal() and not _is_there(int(process))


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another person's process is one, too
        return True
    return True
