"""Several senders at once on PostgreSQL, and one that is killed: each mail once, and none lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection

from annotation.domain.mail.mail import MailKind
from annotation.models import Job, OutgoingMail, Person
from annotation.services import jobs
from annotation.services.mail.outbox import JOB_KIND, post_mail
from tests.annotation.services.test_races import at_once
from tests.conftest import ROOT
from tests.mail import give_address, list_states, run_host, send_all, use_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
NUMBER = 40
WORKER = (
    "import django; django.setup();"
    "from django.conf import settings; from annotation.core.mail_server import parse_mail_url;"
    "settings.MAIL_SERVER = parse_mail_url({url!r}); settings.MAIL_FROM = ('Assay', 'assay@example.org');"
    "settings.SITE_URL = 'http://testserver'; settings.DATABASES['default']['NAME'] = {database!r};"
    "import annotation.tasks; from annotation.services import jobs; jobs.run({job})"
)


def post_many(number: int = NUMBER) -> None:
    """Invitations are the kind that needs the least beside it: here one to each of so many addresses."""
    for place in range(number):
        person = Person.objects.create(username=f"person-{place}")
        give_address(person)
        post_mail(kind=MailKind.ADDRESS_CHANGED, person=person, address=f"{place}@example.org", language="en")
    Job.objects.filter(kind=JOB_KIND).delete()


def make_job() -> Job:
    return Job.objects.create(kind=JOB_KIND)


def test_four_senders_send_each_mail_once(settings: Any) -> None:
    with run_host() as host:
        use_server(settings, host.url)
        post_many()
        made = [make_job() for _sender in range(4)]
        at_once([partial(jobs.run, job.pk) for job in made])
        assert Counter(host.recipients) == Counter(f"{place}@example.org" for place in range(NUMBER))
        assert set(list_states()) == {"sent"}


def test_a_sender_that_is_killed_loses_nothing(settings: Any) -> None:
    """Killed while the server has the first mail in its hands: that one is sent again under its number, the others
    once.
    """
    with run_host() as host:
        use_server(settings, host.url)
        post_many(5)
        job = make_job()
        process: list[subprocess.Popen[bytes]] = []

        def kill() -> None:
            host.during_data = None
            process[0].send_signal(signal.SIGKILL)
            process[0].wait()

        host.during_data = kill
        code = WORKER.format(url=host.url, database=connection.settings_dict["NAME"], job=job.pk)
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
        environment["ASSAY_DATA_DIR"] = str(django_settings.ASSAY_DATA_DIR)
        process.append(subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment))
        end = time.monotonic() + 60
        while process[0].poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        assert process[0].returncode == -signal.SIGKILL
        assert Counter(list_states()) == {"sending": 1, "waiting": 4}
        assert send_all() == []  # the job's worker may still live, as far as anybody knows
        Job.objects.update(state=Job.State.QUEUED)  # as the sweep does, once its heartbeat is old
        send_all()
        assert set(list_states()) == {"sent"}
        numbers = Counter(message["Message-ID"] for message in host.messages)
        assert len(numbers) == 5
        assert OutgoingMail.objects.filter(attempts=2).count() == 1
