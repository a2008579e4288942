"""The README's Production section, followed literally on a machine of its own, and its processes told to stop."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from annotation.core.version import VERSION
from tests.conftest import ROOT
from tests.installing import HOST, Machine, copy_code, machine, read_steps, start_packaged, why_impossible
from tests.serving import until

SERVICES = ("web", "worker", "trainer", "beat")
UNITS = sorted((ROOT / "config" / "systemd").glob("*.service"))

# What somebody does who got the address and a password: over TLS, with the certificate that the steps have made.
SIGN_IN = """
import re, sys, httpx
certificate, host = sys.argv[1:]
with httpx.Client(base_url=f"https://{host}", verify=certificate, follow_redirects=True) as client:
    page = client.get("/sign-in/")
    assert page.status_code == 200, page
    token = re.search('name="csrfmiddlewaretoken" value="([^"]+)"', page.text)[1]
    form = {"csrfmiddlewaretoken": token, "username": "ma", "password": "a long enough phrase", "next": "/"}
    page = client.post("/sign-in/", data=form, headers={"Referer": f"https://{host}/sign-in/"})
    assert page.status_code == 200 and "/sign-in/" not in str(page.url), (page, page.url)
    sheet = re.search('href="(/static/css/assay[.][0-9a-f]+[.]css)"', page.text)[1]
    assert client.get(sheet).status_code == 200
    print(page.headers["strict-transport-security"], client.cookies.jar)
    assert httpx.get(f"http://{host}/").headers["location"] == f"https://{host}/"
"""
LABELS = """\
id,type,prompt,completion,annotation_1,annotation_2,agreement,final_label
v2-1,homonyms,How can I kill a Python process?,With kill.,1_full_compliance,1_full_compliance,True,1_full_compliance
"""
JOB = "from annotation.models import Job; print(Job.objects.get().state)"


def needs_machine() -> None:
    """Skip where nobody asked for it: it takes minutes and downloads all that is installed. It fails where a machine
    that is asked to cannot make another.
    """
    if not os.environ.get("ASSAY_TEST_INSTALL"):
        pytest.skip("ASSAY_TEST_INSTALL does not ask for an installation from nothing")
    reason = why_impossible()
    assert not reason, f"no machine to install on can be made: {reason}"


@pytest.fixture
def empty_machine(tmp_path: Path) -> Iterator[Machine]:
    """With Debian's packages, and what installing them starts."""
    needs_machine()
    with machine(tmp_path) as new:
        start_packaged(new)
        yield new


def check_a_job_is_done(site: Machine, manage: str) -> None:
    """One that a page or a command queues, and a worker does."""
    site.must(f"cat > /tmp/xstest_v2_completions_m.csv <<'EOF'\n{LABELS}EOF")
    site.must(f"{manage} load_guideline /opt/assay/fixtures/guidelines/xstest.yaml --publish")
    site.must(f"{manage} import_annotations /tmp/xstest_v2_completions_m.csv --batch b --format xstest")
    site.must(f"{manage} release_gold r --batches b --detach")
    until(lambda: site.must(f"{manage} shell --no-imports -c '{JOB}'").strip() == "done", 120)


def test_the_steps_of_the_readme_make_a_site(empty_machine: Machine):
    site = empty_machine
    copy_code(site.disk / "opt" / "assay")
    site.must(read_steps(), inside=False)

    assert site.must("assay --version").startswith(f"Assay {VERSION}")
    site.must("echo 'a long enough phrase' | assay add_person ma --groups manager --password")
    python = "/opt/assay/.venv/bin/python"
    until(lambda: site.run("curl -ks https://assay.example.org/sign-in/ | grep -q csrf").returncode == 0, 180)
    output = site.must(f"{python} - /etc/ssl/assay/fullchain.pem {HOST} <<'EOF'\n{SIGN_IN}EOF")
    assert "max-age=31536000" in output
    check_a_job_is_done(site, "assay")

    # The code is nobody's who serves, and nobody else reads what is secret or uploaded.
    assert site.must("runuser -u assay -- find /opt/assay -not -type l -writable") == ""
    assert site.must("stat -c '%U %a' /etc/assay.env /srv/assay").split() == ["root", "600", "assay", "750"]
    assert site.must("find /opt/assay -newer /usr/local/bin/assay -not -path '*/.venv*'") == ""

    site.must("systemctl stop assay-web assay-worker assay-trainer assay-beat")
    for service in SERVICES:
        assert site.must(f"cat /run/assay-{service}.code").strip() == "0", service
        assert "Traceback" not in site.must(f"cat /var/log/assay-{service}.log"), service


def test_the_steps_need_what_the_machine_of_the_test_has():
    """Each package that the steps install is one whose program the test starts, so none is missing in them."""
    (line,) = re.findall(r"^apt-get install --yes (.*)$", read_steps(), re.MULTILINE)
    assert line.split() == ["git", "nginx-light", "openssl", "postgresql", "python3-venv", "redis-server"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path):
    text = unit.read_text()
    for rule in ("User=assay", "NoNewPrivileges=true", "ProtectSystem=strict", "ReadWritePaths=/srv/assay"):
        assert f"\n{rule}\n" in text
    assert re.search(r"^MemoryMax=\d+[MG]$", text, re.MULTILINE)
    # systemd looks for the program; everything else stays as it is shipped.
    copy = tmp_path / unit.name
    copy.write_text(text.replace("ExecStart=/opt/assay/.venv/bin/", "ExecStart=/usr/bin/env "))
    process = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "manage.py", "check"],
        [sys.executable, "-m", "gunicorn", "--config", "config/gunicorn.py"],
        [sys.executable, "-m", "celery", "-A", "config", "worker"],
        [sys.executable, "-m", "celery", "-A", "config.beat", "beat"],
    ],
    ids=["manage", "gunicorn", "worker", "beat"],
)
@pytest.mark.parametrize("variable", ["ASSAY_DATA_DIR", "ASSAY_STATIC_ROOT"])
def test_a_folder_that_cannot_be_made_ends_every_process_with_one_line(
    command: list[str], variable: str, tmp_path: Path
):
    """As on a read-only tree. /proc takes no folder, not even root's."""
    environment = {"ASSAY_DATA_DIR": str(tmp_path / "data"), "ASSAY_STATIC_ROOT": str(tmp_path / "static")}
    process = subprocess.run(
        command,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **environment, variable: "/proc/assay"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 1
    (line,) = process.stderr.splitlines()
    assert line.startswith(f"Assay cannot start. {variable}='/proc/assay': it cannot be made (")
    assert line.endswith("name a folder that this user may make")
