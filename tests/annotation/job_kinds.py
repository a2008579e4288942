"""A kind of job for the tests of jobs; a worker process gets it with ``--include tests.annotation.job_kinds``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from annotation.services import jobs


@jobs.register_handler("tally")
def tally(context: jobs.JobContext) -> dict[str, Any]:
    """Writes a stroke for each step into a file, and goes on where the file ends: a resumable job."""
    file = Path(context.payload["file"])
    steps = context.payload["steps"]
    done = len(file.read_text()) if file.exists() else 0
    for step in range(done, steps):
        with file.open("a") as open_file:
            open_file.write("|")
        context.report((step + 1) / steps, "counting", loss=1 / (step + 1))
        time.sleep(context.payload.get("pause", 0))
    return {"strokes": len(file.read_text()), "began_at": done}
