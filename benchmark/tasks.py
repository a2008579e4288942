"""The kinds of jobs that this app does."""

from __future__ import annotations

from typing import Any

from annotation.services import jobs
from annotation.services.mail.reminders import tell_managers_of
from benchmark.selectors.dialogues import DIALOGUES_JOB
from benchmark.selectors.estimates.sensitivity import SENSITIVITY_JOB
from benchmark.selectors.judges.comparison import COMPARISON_JOB
from benchmark.selectors.leaderboards.runs import list_runs
from benchmark.services import collection, dialogues, multiple_choice, sensitivity
from benchmark.services.judges import comparison, judges, runs
from benchmark.services.leaderboards.execution import execute_run
from benchmark.services.leaderboards.runs import KIND
from benchmark.services.workbench.attempts import ASK_JOB, execute_asking
from benchmark.services.workbench.duplicates import INDEX_JOB, execute_indexing
from benchmark.services.workbench.meanings import EMBED_JOB, execute_embedding


@jobs.register_handler(KIND)
def run_benchmark(context: jobs.JobContext) -> dict[str, Any]:
    run = list_runs().get(pk=context.payload["run"])
    return execute_run(run, context.report)


jobs.register_handler(collection.KIND)(collection.execute_collection)
jobs.register_handler(DIALOGUES_JOB)(dialogues.execute_dialogues)
tell_managers_of(collection.KIND)
tell_managers_of(DIALOGUES_JOB)
jobs.register_handler(COMPARISON_JOB)(comparison.execute_comparison)
jobs.register_handler(judges.KIND)(runs.execute_judging)
jobs.register_handler(multiple_choice.KIND)(multiple_choice.execute_parsing)
jobs.register_handler(SENSITIVITY_JOB)(sensitivity.execute_sensitivity)
jobs.register_handler(ASK_JOB)(execute_asking)
jobs.register_handler(INDEX_JOB)(execute_indexing)
jobs.register_handler(EMBED_JOB)(execute_embedding)
