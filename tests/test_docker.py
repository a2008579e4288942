"""The image and compose.yaml, without Docker: read by hadolint and by compose, and their commands run one by one.

Docker itself is not part of the tests: it needs a daemon of its own. What the files say is carried out in its place on
a machine that is thrown away (tests/installing.py): the steps of the image, then each service's command as its user
with its settings, and the checks of its health.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.installing import HOST, Machine, copy_code, machine, start_packaged
from tests.serving import until
from tests.test_install import SIGN_IN, check_a_job_is_done, needs_machine

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
SECRETS = {"SECRET_KEY": "s" * 40, "POSTGRES_PASSWORD": "p" * 30}
ONE_SHOT = {"migrate", "certificate"}
PROCESSES = ("web", "worker", "trainer", "beat")
USER = "10001"


def write_env(folder: Path) -> Path:
    """What docs/docker.md says to make of the example."""
    text = (ROOT / "config" / "docker" / "example.env").read_text(encoding="utf-8")
    for name, value in SECRETS.items():
        assert f"\n{name}=\n" in text
        text = text.replace(f"\n{name}=\n", f"\n{name}={value}\n")
    (folder / ".env").write_text(text)
    return folder / ".env"


def read_compose(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    for name in ("compose.yaml", "Dockerfile"):
        (folder / name).write_text((ROOT / name).read_text(encoding="utf-8"))
    return subprocess.run(
        [str(BIN / "docker-compose"), "config", *options],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def services(tmp_path: Path) -> dict[str, Any]:
    """As compose understands the file."""
    folder = tmp_path / "compose"
    folder.mkdir()
    write_env(folder)
    process = read_compose(folder, "--format", "json")
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    return dict(json.loads(process.stdout)["services"])


@cache
def instructions() -> tuple[tuple[str, str], ...]:
    """(``RUN``, its text) and so on, in order; continued lines are joined and comments left out."""
    lines = "\n".join(line for line in DOCKERFILE.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    return tuple(tuple(line.split(" ", 1)) for line in joined.splitlines() if line)  # type: ignore[misc]


def test_hadolint_has_nothing_to_say():
    process = subprocess.run(
        [str(BIN / "hadolint"), "--no-color", str(ROOT / "Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout) == (0, "")


def test_the_image_runs_pinned_as_nobody_over_code_of_root():
    bases = [text.split()[0] for name, text in instructions() if name == "FROM"]
    assert all(re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+-slim-bookworm", base) for base in bases)
    final = instructions()[[name for name, _text in instructions()].index("FROM", 1) :]
    assert [text for name, text in final if name == "USER"] == [f"{USER}:{USER}"]
    names = [name for name, _text in final]
    assert "COPY" not in names[names.index("USER") :], "what is copied belongs to root"
    assert not any("--chown" in text for name, text in final if name == "COPY")
    assert not any("apt" in text for name, text in instructions() if name == "RUN")
    (command,) = [text for name, text in final if name == "CMD"]
    assert json.loads(command)[0] == "gunicorn"
    pips = re.findall(r"pip install ([^&;]+)", DOCKERFILE)
    assert all("--require-hashes" in pip or "download.pytorch.org" in pip for pip in pips)
    assert len(pips) == 4


def test_the_context_is_code_alone():
    """An allow-list, so that no data folder, environment file or key gets into an image."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert rules[0] == "**"
    allowed = {rule[1:].rstrip("/") for rule in rules if rule.startswith("!")}
    assert all((ROOT / name).exists() for name in allowed)
    assert not allowed & {".env", ".git", "var", "staticfiles", "tests", "run"}


def test_compose_takes_the_file_and_no_service_is_left_to_itself(services: dict[str, Any]):
    own, foreign = {"migrate", *PROCESSES, "certificate"}, {"database", "broker", "proxy"}
    assert set(services) == own | foreign
    for name, service in services.items():
        assert int(service["mem_limit"]) > 0, name
        assert service["restart"] == ("no" if name in ONE_SHOT else "unless-stopped"), name
        if name not in ONE_SHOT | {"web"}:
            assert service["healthcheck"]["test"], name
        if "build" not in service:
            assert re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?-bookworm", service["image"]), name
        for dependency, condition in service.get("depends_on", {}).items():
            expected = "service_completed_successfully" if dependency in ONE_SHOT else "service_healthy"
            assert condition["condition"] == expected, (name, dependency)
    for name in ("migrate", *PROCESSES):
        service = services[name]
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "migrate" in service.get("depends_on", {}) or name == "migrate"
    assert "HEALTHCHECK" in dict(instructions()), "of the web server, in the image"
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]


@pytest.mark.parametrize("absent", [*SECRETS, "ASSAY_HOST"])
def test_without_a_secret_nothing_starts(absent: str, tmp_path: Path):
    file = write_env(tmp_path)
    file.write_text(re.sub(rf"^{absent}=.*\n", "", file.read_text(), flags=re.MULTILINE))
    process = read_compose(tmp_path)
    assert process.stdout == ""
    assert f"required variable {absent} is missing a value: set it in .env" in process.stderr


def test_no_secret_stands_in_the_files():
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    for name in SECRETS:
        assert set(re.findall(rf"{name}: (\S+)", text)) <= {f"${{{name}}}", f"${{{name}:?set"}
    ignored = subprocess.run(["git", "check-ignore", "-q", ".env"], cwd=ROOT, check=False)
    assert ignored.returncode == 0


def build(site: Machine, context: Path) -> dict[str, str]:
    """Carry out the image's steps on the machine, whose disk stands for both stages; returns the environment."""
    environment, folder = {"ENCODER": "none"}, "/"
    for name, text in instructions():
        if name == "ENV":
            words = dict(part.split("=", 1) for part in shlex.split(text))
            values = {key: value.replace("$VERSION", "0.1.0+test") for key, value in words.items()}
            environment |= {key: value.split(":$PATH")[0] for key, value in values.items()}
        elif name == "WORKDIR":
            folder = text
        elif name == "RUN":
            path = environment.get("PATH")
            before = f'export PATH="{path}:$PATH"\n' if path else ""
            variables = {key: value for key, value in environment.items() if key != "PATH"}
            site.must(f"{before}cd {folder}\n{text}", inside=False, **variables)
        elif name == "COPY" and not text.startswith("--from"):
            *sources, _target = text.split()
            script = f'cp --recursive --preserve=mode {" ".join(sources)} "$TARGET"'
            subprocess.run(
                ["sh", "-euc", script],
                cwd=context,
                env={"PATH": "/usr/bin:/bin", "TARGET": str(site.disk) + folder},
                check=True,
            )
    return environment


def list_context(folder: Path) -> Path:
    """The files that .dockerignore lets through."""
    checkout, context = folder / "checkout", folder / "context"
    checkout.mkdir()
    context.mkdir()
    copy_code(checkout)
    for rule in (ROOT / ".dockerignore").read_text().splitlines():
        if rule.startswith("!"):
            (checkout / rule[1:].rstrip("/")).rename(context / rule[1:].rstrip("/"))
    return context


@pytest.fixture
def empty_machine(tmp_path: Path) -> Iterator[Machine]:
    needs_machine()
    with machine(tmp_path) as new:
        start_packaged(new)
        yield new


def test_the_commands_of_the_image_and_of_compose_make_a_site(
    empty_machine: Machine, services: dict[str, Any], tmp_path: Path
):
    site = empty_machine
    image = build(site, list_context(tmp_path))
    site.must("echo '127.0.0.1 database broker web' >> /etc/hosts")
    site.must(
        f'su postgres -c "psql -qc \\"create role assay login password \'{SECRETS["POSTGRES_PASSWORD"]}\'\\""'
    )
    site.must("su postgres -c 'createdb --owner assay assay'")

    def as_service(name: str, script: str) -> str:
        """By the service's user, in the image's folder, with its environment and nothing else."""
        settings = services[name]["environment"] | image | {"HOSTNAME": name}
        words = [f"{key}={value}" for key, value in settings.items() if key != "PATH"]
        path = f"PATH={image['PATH']}:/usr/local/bin:/usr/bin:/bin"
        user = f"setpriv --reuid={USER} --regid={USER} --clear-groups --no-new-privs"
        return f"cd /opt/assay && exec {user} env -i {shlex.join([path, *words])} {script}"

    def start(name: str, script: str) -> None:
        site.must(f"({script}) > /var/log/{name}.log 2>&1 < /dev/null & echo $! > /run/{name}.pid; disown")

    site.must(as_service("migrate", shlex.join(services["migrate"]["command"])))
    assert site.must(as_service("web", "python3 manage.py --version")) == "Assay 0.1.0+test\n"
    (command,) = [text for name, text in instructions() if name == "CMD"]
    start("web", as_service("web", shlex.join(json.loads(command))))
    for name in PROCESSES[1:]:
        # Each container has a name of its own; here all are on one machine.
        named = [] if name == "beat" else ["--hostname", f"celery@{name}"]
        start(name, as_service(name, shlex.join([*services[name]["command"], *named])))

    # The certificate and the proxy, in whose image nginx reads nothing but this folder.
    site.must("mkdir -p /etc/ssl/assay")
    site.must(f"cd /opt/assay && sh config/docker/certificate.sh /etc/ssl/assay {HOST}")
    certificate = site.must("cat /etc/ssl/assay/fullchain.pem")
    site.must(f"cd /opt/assay && sh config/docker/certificate.sh /etc/ssl/assay {HOST}")
    assert site.must("cat /etc/ssl/assay/fullchain.pem") == certificate, "one's own certificate stays"
    site.must("rm -f /etc/nginx/sites-enabled/* && mkdir -p /etc/assay")
    site.must("cp /opt/assay/config/nginx.conf /opt/assay/config/docker/proxy.sh /etc/assay")
    assert services["proxy"]["command"] == ["sh", "/etc/assay/proxy.sh", HOST, "web:8000"]
    start("proxy", f"exec {shlex.join(services['proxy']['command'])}")

    until(lambda: site.run(f"curl -ks https://{HOST}/sign-in/ | grep -q csrf").returncode == 0, 180)
    add = "echo a long enough phrase | python3 manage.py add_person ma --groups manager --password"
    site.must(as_service("web", f"sh -c {shlex.quote(add)}"))
    site.must(f"/opt/venv/bin/python - /etc/ssl/assay/fullchain.pem {HOST} <<'EOF'\n{SIGN_IN}EOF")
    site.must(f"cat > /usr/local/bin/assay <<'EOF'\n{as_service('web', 'python3 manage.py')} \"$@\"\nEOF")
    site.must("chmod +x /usr/local/bin/assay")
    check_a_job_is_done(site, "sh /usr/local/bin/assay")

    checked = (*PROCESSES[1:], "broker", "database", "proxy")
    checks = {name: services[name]["healthcheck"]["test"] for name in checked}
    (of_the_image,) = [text for name, text in instructions() if name == "HEALTHCHECK"]
    checks["web"] = ["CMD", *json.loads("[" + of_the_image.partition("[")[2])]
    for name, (kind, *words) in checks.items():
        script = words[0].replace("$$", "$") if kind == "CMD-SHELL" else shlex.join(words)
        ours = name in PROCESSES
        site.must(as_service(name, f"sh -c {shlex.quote(script)}") if ours else script)
    writable = "find /opt/assay /opt/venv -not -type l -writable"
    assert site.must(as_service("web", writable)) == ""

    for name in (*PROCESSES, "proxy"):
        site.must(f"kill -TERM $(cat /run/{name}.pid)")
        gone = f"! kill -0 $(cat /run/{name}.pid) 2>/dev/null"
        until(lambda gone=gone: site.run(gone).returncode == 0, 60)  # type: ignore[misc]
        assert "Traceback" not in site.must(f"cat /var/log/{name}.log"), name
