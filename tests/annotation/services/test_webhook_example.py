"""The receiver in docs/webhooks.md, run as it stands there and sent real messages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from ipaddress import ip_network
from pathlib import Path

import pytest
from django.conf import LazySettings

from annotation.models import Person, WebhookDelivery
from annotation.services.studies import find_or_make_study
from annotation.services.webhooks.endpoints import create_endpoint, renew_secret, send_again, send_test
from annotation.services.webhooks.sending import send_due
from tests.annotation.webhook_receiver import MovedClock
from tests.conftest import ROOT
from tests.serving import connected, free_port

pytestmark = pytest.mark.django_db


@contextmanager
def run_example(folder: Path, port: int, secret: str) -> Iterator[subprocess.Popen[str]]:
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "webhooks.md").read_text("utf-8"), re.DOTALL
    )
    script = folder / "receiver.py"
    script.write_text(code, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "PORT": str(port), "WEBHOOK_SECRET": secret}
    # -I: of the standard library alone.
    command = [sys.executable, "-I", str(script)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for _attempt in range(300):
            try:
                connected(port).close()
                break
            except OSError:
                time.sleep(0.1)
        try:
            yield process
        finally:
            process.kill()


def test_the_receiver_of_the_documents_takes_each_message_once_and_no_forged_one(
    tmp_path: Path, settings: LazySettings, ma: Person
):
    settings.WEBHOOK_NETWORKS, settings.WEBHOOK_HTTP = (ip_network("127.0.0.0/8"),), True
    port = free_port()
    endpoint, secret = create_endpoint(
        study=find_or_make_study(),
        url=f"http://127.0.0.1:{port}/hook",
        events=["run.done"],
        base_url="https://assay.example",
        actor=ma,
    )
    with run_example(tmp_path, port, secret) as process:
        delivery = send_test(endpoint=endpoint)
        assert send_due(clock=MovedClock()) == {"accepted": 1, "failed": 0}
        send_again(endpoint=endpoint, delivery=delivery, actor=ma)
        assert send_due(clock=MovedClock()) == {"accepted": 1, "failed": 0}
        # The former secret goes on for a day, and then does not.
        renew_secret(endpoint=endpoint, hours=24, actor=ma)
        send_test(endpoint=endpoint)
        assert send_due(clock=MovedClock()) == {"accepted": 1, "failed": 0}
        renew_secret(endpoint=endpoint, hours=0, actor=ma)
        send_test(endpoint=endpoint)
        assert send_due(clock=MovedClock()) == {"accepted": 0, "failed": 1}
        with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as stranger:
            stranger.request("POST", "/", b"{}", {"webhook-id": "m"})
            assert stranger.getresponse().status == 401
        process.kill()
        assert process.stdout is not None
        url = f"https://assay.example/s/default/webhooks/{endpoint.pk}/"
        assert process.stdout.read().splitlines() == [f"webhook.test {url}"] * 2
    states = WebhookDelivery.objects.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["accepted", "accepted", "waiting"]
