"""What the workers run. The bodies are one line: the row decides (annotation/services/jobs.py)."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from annotation.core.errors import N_
from annotation.selectors.releases.releases import RELEASE_JOB
from annotation.services import demo, jobs, releases
from annotation.services.audit.chain import seal_events
from annotation.services.batches import batches, collection, monitoring
from annotation.services.exports import downloads
from annotation.services.imports import uploads
from annotation.services.mail import outbox, reminders, sending
from annotation.services.people import provider_sweep
from annotation.services.studies import deletion as study_deletion
from annotation.services.upkeep import remains
from annotation.services.upkeep.clean_up import clean_up, register_cleaner
from annotation.services.webhooks import sending as webhook_sending

reminders.connect_signals()


@shared_task(name="annotation.run_job")
def run_job(job_id: int) -> None:
    jobs.run(job_id)


@shared_task(name="annotation.sweep_jobs")
def sweep_jobs() -> None:
    jobs.sweep()


@shared_task(name="annotation.watch_batches")
def watch_batches() -> None:
    monitoring.watch_batches()


@shared_task(name="annotation.queue_webhooks")
def queue_webhooks() -> None:
    webhook_sending.queue_sending()


@shared_task(name="annotation.check_providers")
def check_providers() -> None:
    provider_sweep.check_providers()


@shared_task(name="annotation.clean_up")
def clean_up_nightly() -> None:
    clean_up(remove=True)


@shared_task(name="annotation.send_mail")
def send_mail() -> None:
    outbox.release_dead_claims()
    outbox.wake_sender()


@shared_task(name="annotation.post_reminders")
def post_reminders() -> None:
    reminders.post_reminders()


register_cleaner("sessions")(remains.clean_sessions)
register_cleaner("cache entries")(remains.clean_cache)
register_cleaner("drafts")(remains.clean_drafts)
register_cleaner("idempotency keys")(remains.clean_idempotency_keys)
register_cleaner("uploads")(remains.clean_uploads)
register_cleaner("exports")(remains.clean_exports)
register_cleaner("charts")(remains.clean_charts)
register_cleaner("stray files")(remains.clean_stray_files)
register_cleaner("webhook messages")(remains.clean_webhook_messages)
register_cleaner("mails")(remains.clean_mails)


@shared_task(name="annotation.seal_audit")
def seal_audit() -> None:
    seal_events()


@jobs.register_handler(demo.BOARD_KIND)
def demo_board(context: jobs.JobContext) -> dict[str, str]:
    context.report(0.5, N_("starting the benchmark"))
    demo.run_board()
    return {"run": demo.BOARD}


@jobs.register_handler(batches.JOB_KIND)
def make_batch(context: jobs.JobContext) -> dict[str, Any]:
    return batches.execute_batch_job(context)


@jobs.register_handler(collection.JOB_KIND)
def end_collection(context: jobs.JobContext) -> dict[str, Any]:
    return collection.execute_end_job(context)


@jobs.register_handler(RELEASE_JOB)
def cut_release(context: jobs.JobContext) -> dict[str, Any]:
    return releases.execute_release_job(context)


@jobs.register_handler(downloads.JOB_KIND)
def write_export(context: jobs.JobContext) -> dict[str, Any]:
    return downloads.execute_export(context)


@jobs.register_handler(outbox.JOB_KIND)
def send_due_mail(context: jobs.JobContext) -> dict[str, Any]:
    return sending.send_due_mail(context)


@jobs.register_handler(uploads.JOB_KIND)
def import_upload(context: jobs.JobContext) -> dict[str, Any]:
    return uploads.execute_import(context)


@jobs.register_handler(webhook_sending.JOB_KIND)
def send_webhooks(context: jobs.JobContext) -> dict[str, Any]:
    return {**webhook_sending.execute_sending(context)}


@jobs.register_handler(study_deletion.JOB_KIND)
def delete_study(context: jobs.JobContext) -> dict[str, Any]:
    return study_deletion.execute_deletion(context)
