"""What is checked of an installation: settings, database, files, broker, processes, exports.

annotation/core/health.py says what a check is.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import tempfile
import time
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any
from urllib.parse import urlsplit

from celery import current_app
from django.apps import apps
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core import checks
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from annotation.core.errors import N_, AssayError
from annotation.core.health import (
    DATABASE,
    MIGRATIONS,
    HealthResult,
    Readiness,
    fault,
    passed,
    register_check,
    warning,
)
from annotation.core.mail_server import MailServerAway, MailSession
from annotation.core.signs import BEAT, WORKER
from annotation.core.storage import bucket, file_cache
from annotation.models import Export, Study, WebhookEndpoint
from annotation.models.sql.clock import read_clock
from annotation.selectors.audit.chain import verify_trail
from annotation.selectors.exports import get_export_folder
from annotation.selectors.mail.mail import measure_mail_load
from annotation.selectors.operations.queues import list_queues
from annotation.selectors.operations.signs import STALE_SECONDS, list_signs
from annotation.selectors.webhooks.endpoints import has_lost_key, measure_load
from annotation.services.people.provider_health import find_provider_problem

MIB = 1024 * 1024
MIN_FREE_MIB = 256
"""Below it a fault: PostgreSQL, SQLite and uploads fail in ways that are hard to mend."""
FEW_FREE_MIB = 2048
MAX_CLOCK_SECONDS = 2.0
FAULTY_CLOCK_SECONDS = 30.0
BROKER_SECONDS = 1
REDIS_PORT = 6379
STYLESHEET = "css/assay.css"
OVERDUE_SECONDS = 600
"""A message of a webhook that should have been sent so long ago: nobody sends."""
MAX_NAMED = 5
"""So many files are named; of the others the number is enough."""


@register_check("settings")
def check_settings() -> HealthResult:
    """What ``config/settings.py`` takes, and production should not have. It stops the start for what is worse."""
    errors = [message for message in checks.run_checks() if message.is_serious()]
    if errors:
        return fault(
            N_("Django refuses the settings: {why}"), N_("Correct what it names."), why=errors[0].msg
        )
    if not settings.IS_PUBLIC:
        return passed(N_("For this machine alone: ALLOWED_HOSTS names loopback."))
    if not settings.HTTPS:
        return warning(
            N_("Pages are served to others without HTTPS: passwords and sessions can be read on the way."),
            N_("Set ASSAY_HTTPS=true behind a proxy that ends HTTPS (config/nginx.conf)."),
        )
    if not settings.TRUSTED_PROXIES:
        return warning(
            N_("Everybody counts as one address when sign-ins are limited."),
            N_("Set ASSAY_TRUSTED_PROXIES to the number of proxies that stand before Assay."),
        )
    return passed(N_("HTTPS and {number} trusted proxies."), number=settings.TRUSTED_PROXIES)


@register_check("secrets")
def check_secrets() -> HealthResult:
    for name in ("secret_key", "demo_password"):
        path = settings.ASSAY_DATA_DIR / name
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            return fault(
                N_("{path} can be read by other users of this machine."), N_("chmod 600 {path}"), path=path
            )
    if len(set(settings.SECRET_KEY)) < 10:
        return fault(
            N_("SECRET_KEY is no random text: sessions signed with it can be forged."),
            N_("Draw one: python3 -c “import secrets; print(secrets.token_urlsafe(50))”"),
        )
    return passed(N_("SECRET_KEY has {number} characters."), number=len(settings.SECRET_KEY))


@register_check(DATABASE, readiness=Readiness.REQUIRED)
def check_database() -> HealthResult:
    try:
        connection.ensure_connection()
        read_clock()
    except (DatabaseError, InterfaceError) as error:
        connection.close()
        return fault(
            N_("It does not answer: {why}"),
            N_("Start it, or correct DATABASE_URL."),
            why=" ".join(str(error).split()),
        )
    version = ".".join(map(str, connection.get_database_version()))
    if connection.vendor == "sqlite" and settings.IS_PUBLIC:
        return warning(
            N_("SQLite {version} serves others: everybody who submits waits for everybody else."),
            N_("Set DATABASE_URL to a PostgreSQL database."),
            version=version,
        )
    return passed(N_("{name} {version}"), name=connection.display_name, version=version)


@register_check("clock", needs_database=True)
def check_clock() -> HealthResult:
    """The database's clock decides about leases and jobs, this machine's about sessions, links and tokens."""
    before = time.time()
    clock = read_clock()
    now = datetime.fromtimestamp((before + time.time()) / 2, tz=UTC)
    seconds = round((now - clock).total_seconds(), 1) + 0.0  # no -0.0
    if abs(seconds) <= MAX_CLOCK_SECONDS:
        return passed(N_("{seconds} s from the database’s."), seconds=seconds)
    report = fault if abs(seconds) > FAULTY_CLOCK_SECONDS else warning
    return report(
        N_("This machine’s clock is {seconds} s from the database’s."),
        N_("Have both set by NTP (timedatectl set-ntp true)."),
        seconds=seconds,
    )


@register_check("sign-in", needs_database=True)
def check_sign_in() -> HealthResult:
    """The identity providers: whether they answer with what a sign-in needs, and whether the mapping names studies that
    are there. Without providers nothing is asked.
    """
    providers = settings.SIGN_IN_PROVIDERS
    if not providers:
        return passed(N_("With passwords of this site; no identity provider."))
    for provider in providers:
        try:
            problem = find_provider_problem(provider)
        except AssayError as error:
            return fault(
                "{why}", N_("Correct the file of ASSAY_SIGN_IN, or ask whoever runs the provider."), why=error
            )
        if problem is not None:
            return problem
    named = {study for provider in providers for study in provider.studies}
    missing = sorted(named - set(Study.objects.values_list("name", flat=True)))
    if missing:
        return warning(
            N_("Groups are mapped to studies that are not there: {names}"),
            N_("Make them (python manage.py add_study), or correct the file of ASSAY_SIGN_IN."),
            names=", ".join(missing),
        )
    return passed(
        N_("Signing in with {names} is possible."), names=", ".join(provider.name for provider in providers)
    )


@register_check("pooler", needs_database=True)
def check_pooler() -> HealthResult:
    """Whether this connection is lent by a pooler was asked when it was opened (annotation/core/databases.py)."""
    if connection.vendor != "postgresql":
        return passed(N_("SQLite needs none."))
    if settings.IS_POOLED:
        return passed(N_("DISABLE_SERVER_SIDE_CURSORS says that there is one."))
    if connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]:
        return warning(
            N_(
                "A pooler hands connections round between transactions, and each process has to find that out."
            ),
            N_("Set DISABLE_SERVER_SIDE_CURSORS=true."),
        )
    return passed(N_("None: connections are this process’s own."))


@cache
def list_shipped_migrations() -> frozenset[tuple[str, str]]:
    """Those of this code, by the names of their files: the graph of them would take a second, and the memory."""
    names = set()
    for app in apps.get_app_configs():
        module, _is_explicit = MigrationLoader.migrations_module(app.label)
        if module is None or find_spec(module) is None:
            continue
        files = iter_modules(import_module(module).__path__)
        names |= {(app.label, file.name) for file in files if not file.ispkg and file.name[0] not in "_~"}
    return frozenset(names)


@register_check(MIGRATIONS, needs_database=True, readiness=Readiness.REQUIRED)
def check_migrations() -> HealthResult:
    applied = set(MigrationRecorder(connection).applied_migrations())
    shipped = list_shipped_migrations()
    missing = sorted(shipped - applied)
    if missing:
        return fault(
            N_("{number} migrations are not applied, the first of them {name}."),
            N_("Run python manage.py migrate."),
            number=len(missing),
            name=".".join(missing[0]),
        )
    labels = {app for app, _name in shipped}
    newer = sorted(name for name in applied - shipped if name[0] in labels)
    if newer:
        return warning(
            N_("The database is newer than this code: it knows {name}."),
            N_("Update this machine’s code, or finish the upgrade that is under way."),
            name=".".join(newer[-1]),
        )
    return passed(N_("All {number} are applied."), number=len(shipped))


@register_check("static files")
def check_static_files() -> HealthResult:
    """All that pages may name."""
    names = [name for finder in get_finders() for name, _storage in finder.list([])]
    return _check_collected(names)


@register_check("manifest", readiness=Readiness.REQUIRED)
def check_manifest() -> HealthResult:
    """The stylesheet stands for the others: it is quickly asked for, and no page does without."""
    return _check_collected([STYLESHEET])


def _check_collected(names: list[str]) -> HealthResult:
    if not settings.COLLECTED:
        if not settings.IS_PUBLIC:
            return passed(N_("Served from the source; collectstatic is for production."))
        return warning(
            N_("collectstatic was not run: styles and scripts are neither hashed nor compressed."),
            N_("Run python manage.py collectstatic --noinput, then restart the web processes."),
        )
    manifest: dict[str, str] = getattr(staticfiles_storage, "hashed_files", {})
    missing = [
        name for name in names if name not in manifest or not staticfiles_storage.exists(manifest[name])
    ]
    if missing:
        return fault(
            N_("{number} files are not in {folder}, and every page that names one is an error: {files}"),
            N_("Run python manage.py collectstatic --noinput, then restart the web processes."),
            number=len(missing),
            folder=settings.STATIC_ROOT,
            files=_name_files(missing),
        )
    return passed(N_("{number} files in {folder}."), number=len(names), folder=settings.STATIC_ROOT)


@register_check("data folder", readiness=Readiness.REQUIRED)
def check_data_folder() -> HealthResult:
    folder: Path = settings.ASSAY_DATA_DIR
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".health-") as probe:
            probe.write(b"assay")
            probe.flush()
    except OSError as error:
        return fault(
            N_("{folder} cannot be written: {why}."),
            N_("Make room, give it to the user who runs Assay (chown), or name another with ASSAY_DATA_DIR."),
            folder=folder,
            why=error.strerror or error,
        )
    uploads = settings.MEDIA_ROOT
    if uploads.exists() and stat.S_IMODE(uploads.stat().st_mode) & 0o077:
        return warning(
            N_("Other users of this machine can read {folder}, where uploaded files are."),
            N_("chmod -R go= {folder}"),
            folder=uploads,
        )
    return passed(N_("{folder} can be written."), folder=folder)


@register_check("storage")
def check_storage() -> HealthResult:
    """The bucket, by a file that is put there, read and deleted."""
    if not bucket.is_used():
        return passed(N_("Files are kept in the data folder."))
    try:
        bucket.check_access()
    except (AssayError, OSError) as error:
        return fault(
            N_("{place} cannot be used: {why}"),
            N_(
                "See ASSAY_STORAGE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and whether the bucket is there."
            ),
            place=bucket.describe(),
            why=error,
        )
    return passed(
        N_("{place} can be read and written; this host keeps {size} MiB of it."),
        place=bucket.describe(),
        size=file_cache.measure() // MIB,
    )


@register_check("disk")
def check_disk() -> HealthResult:
    """Of the data folder, and of where the server puts a body that it is receiving."""
    folders = [settings.ASSAY_DATA_DIR, Path(tempfile.gettempdir())]
    free, folder = min((shutil.disk_usage(folder).free // MIB, str(folder)) for folder in folders)
    if free < FEW_FREE_MIB:
        report = fault if free < MIN_FREE_MIB else warning
        return report(
            N_("{free} MiB are free at {folder}."),
            N_("Discard exports and uploads that nobody needs, or give it a larger disk."),
            free=free,
            folder=folder,
        )
    return passed(N_("{free} MiB are free at {folder}."), free=free, folder=folder)


@register_check("broker", readiness=Readiness.ADVISORY)
def check_broker() -> HealthResult:
    try:
        with current_app.connection(connect_timeout=BROKER_SECONDS) as broker:
            broker.ensure_connection(max_retries=0, timeout=BROKER_SECONDS)
            broker.channel()  # Redis is asked for the first time here
    except Exception as error:  # any broker's own kind of exception
        return fault(
            N_("It does not answer: {why}"),
            N_("Start it, or correct CELERY_BROKER_URL. Jobs wait meanwhile; none is lost."),
            why=" ".join(str(error).split()),
        )
    address = urlsplit(settings.CELERY_BROKER_URL)
    if address.scheme in {"redis", "rediss"}:
        return passed(N_("{address} answers."), address=f"{address.hostname}:{address.port or REDIS_PORT}")
    if settings.IS_PUBLIC:
        return warning(
            N_("Messages are files in the data folder: workers on other machines hear of nothing."),
            N_("Set CELERY_BROKER_URL to a Redis server."),
        )
    return passed(N_("Messages are files in the data folder."))


@register_check("beat", needs_database=True, readiness=Readiness.ADVISORY)
def check_beat() -> HealthResult:
    """Its last sign is the last message for the sweep that it sent."""
    signs = list_signs(BEAT)
    if not signs or signs[0].is_stale:
        return fault(
            N_("No sign of beat for {seconds} s: jobs of dead workers stay where they are.")
            if signs
            else N_("No sign of beat within a day: jobs of dead workers stay where they are."),
            N_("Start exactly one: celery -A config.beat beat (or --beat at the only worker)."),
            seconds=round(signs[0].seconds) if signs else 0,
        )
    return passed(N_("Last heard of {seconds} s ago."), seconds=round(signs[0].seconds))


@register_check("workers", needs_database=True)
def check_workers() -> HealthResult:
    signs = list_signs(WORKER)
    alive, gone = [s for s in signs if not s.is_stale], [s for s in signs if s.is_stale]
    if not alive:
        return fault(
            N_("No sign of any worker within {seconds} s: jobs wait."),
            N_("Start one: celery -A config worker"),
            seconds=STALE_SECONDS,
        )
    if gone:
        return warning(
            N_("{number} at work; {name} was last heard of {minutes} minutes ago."),
            N_("See its log, and start it again; one that went for good is forgotten after a day."),
            number=len(alive),
            name=gone[0].name,
            minutes=round(gone[0].seconds / 60),
        )
    return passed(N_("{number} at work."), number=len(alive))


@register_check("queues", needs_database=True)
def check_queues() -> HealthResult:
    """Whether a live worker takes from each."""
    queues = list_queues()
    untaken = [queue for queue in queues if not queue.workers]
    if untaken:
        return (fault if any(queue.waiting for queue in untaken) else warning)(
            N_("No worker takes from {queues}; jobs that wait there: {number}."),
            N_("Start one that does: celery -A config worker -Q {queues}"),
            queues=",".join(queue.name for queue in untaken),
            number=sum(queue.waiting for queue in untaken),
        )
    return passed(N_("Jobs that wait: {number}."), number=sum(queue.waiting for queue in queues))


@register_check("webhooks", needs_database=True)
def check_webhooks() -> HealthResult:
    """Whether messages are sent, and accepted. A study's failing receiver is its managers' affair: no fault."""
    active = WebhookEndpoint.objects.filter(turned_off="")
    lost = [endpoint for endpoint in active if has_lost_key(endpoint)]
    if lost:
        return fault(
            N_(
                "{number} webhooks cannot sign: SECRET_KEY is not the one with which their secrets were made."
            ),
            N_("Bring the former SECRET_KEY back, or have the secrets renewed on the pages of the webhooks."),
            number=len(lost),
        )
    load = measure_load()
    if load.overdue_seconds > OVERDUE_SECONDS:
        return fault(
            N_("{number} messages wait; the oldest should have been sent {minutes} minutes ago."),
            N_("Start beat, and a worker that takes from the queue housekeeping."),
            number=load.waiting,
            minutes=round(load.overdue_seconds / 60),
        )
    if load.failing or load.given_up:
        return warning(
            N_("{failing} webhooks fail now, {number} were turned off because they failed."),
            N_("Their pages say why; once the receiver is back, turn them on and send again what failed."),
            failing=load.failing,
            number=load.given_up,
        )
    return passed(
        N_("{number} webhooks; messages that wait: {waiting}."), number=len(active), waiting=load.waiting
    )


MAX_MAIL_WAIT_MINUTES = 30


@register_check("mail server")
def check_mail_server() -> HealthResult:
    """Whether it answers and takes our password. No mail is sent."""
    server = settings.MAIL_SERVER
    if server is None:
        return passed(N_("No mail is sent: EMAIL_URL is empty."))
    try:
        with MailSession(server, name=settings.MAIL_FROM[1].rpartition("@")[2]) as session:
            session.open()
    except MailServerAway as error:
        return fault(
            N_("{server} does not take mail: {why}"),
            N_("Correct EMAIL_URL, or the server; python manage.py send_test_mail ADDRESS tries it."),
            server=str(server),
            why=error.reason,
        )
    return passed(N_("{server} answers."), server=str(server))


@register_check("mail", needs_database=True)
def check_mail() -> HealthResult:
    if settings.MAIL_SERVER is None:
        return passed(N_("No mail is sent: EMAIL_URL is empty."))
    load = measure_mail_load()
    minutes = round(load.oldest_seconds / 60)
    if minutes > MAX_MAIL_WAIT_MINUTES:
        return fault(
            N_("Mails that wait: {number}, the oldest for {minutes} minutes."),
            N_("See the page Operations for what the server said, and whether beat and a worker run."),
            number=load.waiting,
            minutes=minutes,
        )
    if load.failed:
        return warning(
            N_("Mails of the last 7 days that were not sent: {number}."),
            N_("See the page Operations for what the server said of them."),
            number=load.failed,
        )
    return passed(
        N_("Mails of the last 7 days: {sent} sent, {waiting} wait."), sent=load.sent, waiting=load.waiting
    )


@register_check("audit", needs_database=True, reads_all=True)
def check_audit_trail() -> HealthResult:
    """The whole chain of the audit trail, computed again."""
    report = verify_trail()
    if report.problems:
        return fault(
            N_("The audit trail has {number} problems. {first}"),
            N_("python manage.py audit_trail --verify names all of them."),
            number=len(report.problems),
            first=str(report.problems[0]),
        )
    return passed(N_("{number} events are as they were sealed."), number=report.sealed)


@register_check("exports", needs_database=True, reads_all=True)
def check_exports() -> HealthResult:
    """Each file of each export that is kept, against the hash that was stored when it was written."""
    exports = Export.objects.filter(verified_at__isnull=False)
    faults, number = [], 0
    for export in exports.select_related("release").order_by("pk").iterator():
        for file in export.files:
            number += 1
            if bucket.is_used():
                reason = _find_object_fault(f"{export.folder}/{file['name']}", file)
            else:
                reason = _find_file_fault(get_export_folder(export) / file["name"], file)
            if reason:
                faults.append(f"{export.release.name}/{export.format}/{file['name']} ({reason})")
    if faults:
        return fault(
            N_("{number} files of exports are not as they were written: {files}"),
            N_("Restore them from the backup, or discard the export and order it again."),
            number=len(faults),
            files=_name_files(faults),
        )
    return passed(N_("{number} files are as they were written."), number=number)


def _find_file_fault(path: Path, stored: dict[str, Any]) -> str:
    try:
        if path.stat().st_size != stored["bytes"]:
            return f"{path.stat().st_size} bytes instead of {stored['bytes']}"
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return os.strerror(error.errno or 0)
    return "" if digest == stored["sha256"] else f"sha256 {digest[:12]}…"


def _find_object_fault(name: str, stored: dict[str, Any]) -> str:
    total = hashlib.sha256()
    try:
        for block in bucket.read_blocks(name):
            total.update(block)
    except FileNotFoundError:
        return os.strerror(errno.ENOENT)
    except AssayError as error:
        return str(error)
    return "" if total.hexdigest() == stored["sha256"] else f"sha256 {total.hexdigest()[:12]}…"


def _name_files(names: list[str]) -> str:
    more = f", … (+{len(names) - MAX_NAMED})" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
