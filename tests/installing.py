"""A machine to install on: this one's programs under a copy of its disk that is thrown away, and ports of its own.

Namespaces of Linux make it: what is written goes into memory or a folder, nothing that listens is seen outside, and
all that runs there ends with it. It needs root, and PostgreSQL, Redis and nginx as Debian installs them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.serving import ROOT, until

HOST = "assay.example.org"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEEDED = ("unshare", "nsenter", "setpriv", "pg_createcluster", "redis-server", "nginx", "openssl")

# Runs as the first process: a disk that begins as this machine's, without what its servers keep and without what
# tests of Assay left behind; then a network with nothing but loopback, under the name /run/network.
SETUP = r"""
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$FOLDER/layer"
mkdir "$FOLDER/layer/written" "$FOLDER/layer/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$FOLDER/layer/written,workdir=$FOLDER/layer/work" "$FOLDER/disk"
cd "$FOLDER/disk"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
for kept in opt/assay srv var/lib/postgresql var/lib/redis; do
    mkdir -p "$kept" "$FOLDER/kept/$kept"
    mount --bind "$FOLDER/kept/$kept" "$kept"
done
mount -t tmpfs tmpfs etc/postgresql
mount -t tmpfs tmpfs var/log
mkdir -p run/postgresql run/redis run/lock var/log/postgresql var/log/nginx
chown postgres: run/postgresql etc/postgresql var/lib/postgresql var/log/postgresql
cat /etc/resolv.conf > etc/resolv.conf
echo "127.0.0.1 localhost assay.example.org" > etc/hosts
rm -f etc/nginx/conf.d/assay.conf etc/assay.env usr/local/bin/assay
printf '#!/bin/sh\nexit 101\n' > usr/sbin/policy-rc.d
chmod +x usr/sbin/policy-rc.d
install -m 755 "$FOLDER/systemctl" usr/local/sbin/systemctl
touch run/network
unshare --net sh -c "ip link set lo up && mount --bind /proc/self/ns/net run/network"
touch "$FOLDER/ready"
while :; do sleep 1000 & wait; done
"""

# Stands in for systemd, which runs no second time on a machine: it does what the units say of the user, the folder,
# the environment and the command, and tells a process to stop as systemd does.
SYSTEMCTL = r"""#!/usr/bin/python3
import configparser, os, signal, subprocess, sys, time
from pathlib import Path

NETWORK = ["nsenter", "--net=/run/network"]
PACKAGED = {
    "nginx": "nginx",
    "postgresql": "pg_ctlcluster --skip-systemctl-redirect $(ls /etc/postgresql) main start",
    "redis-server": "redis-server --daemonize yes --save '' --dir /var/lib/redis",
}

def read(name):
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    unit.optionxform = str
    unit.read(f"/etc/systemd/system/{name}.service")
    return unit["Service"]

def start(name):
    if name in PACKAGED:
        subprocess.run([*NETWORK, "sh", "-c", PACKAGED[name]], check=True)
        return
    service = read(name)
    environment = {"PATH": "/usr/sbin:/usr/bin"}
    lines = Path(service["EnvironmentFile"]).read_text().splitlines() + service["Environment"].split()
    environment.update(line.split("=", 1) for line in lines if line)
    user = ["setpriv", "--reuid", service["User"], "--regid", service["Group"], "--init-groups"]
    script = f'"$@" & echo $! > /run/{name}.pid; wait $!; echo $? > /run/{name}.code'
    Path(f"/run/{name}.code").unlink(missing_ok=True)
    subprocess.Popen(
        [*NETWORK, "sh", "-c", script, "sh", *user, "--no-new-privs", *service["ExecStart"].split()],
        cwd=service["WorkingDirectory"], env=environment, start_new_session=True,
        stdout=open(f"/var/log/{name}.log", "a"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )

def stop(name):
    os.kill(int(Path(f"/run/{name}.pid").read_text()), signal.SIGTERM)
    end = time.monotonic() + int(read(name)["TimeoutStopSec"])
    while not Path(f"/run/{name}.code").exists():
        if time.monotonic() > end:
            sys.exit(f"{name} did not stop")
        time.sleep(0.05)

verb, names = sys.argv[1], [argument for argument in sys.argv[2:] if not argument.startswith("-")]
for name in names:
    {"start": start, "enable": start, "restart": start, "stop": stop}[verb](name)
"""


@dataclass(frozen=True)
class Machine:
    first: int
    """The process whose end is the end of them all."""
    folder: Path

    @property
    def disk(self) -> Path:
        return Path(f"/proc/{self.first}/root") / (self.folder / "disk").relative_to("/")

    def run(
        self, script: str, *, inside: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """What root's shell does with a script: on the machine's own network, or on this one's (``inside=False``)."""
        network = ["nsenter", "--net=/run/network"] if inside else []
        enter = ["nsenter", "--target", str(self.first), "--mount", "--pid", "--"]
        root = ["chroot", str(self.folder / "disk")]
        names = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **environment}
        # What leads to the packages is this machine's affair, and no step of an installation.
        reach = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("PIP_", "SSL_")) or name.lower().endswith("_proxy")
        }
        return subprocess.run(
            [*enter, *root, *network, "bash", "-euo", "pipefail", "-s"],
            input=script,
            env={**reach, **names},
            capture_output=True,
            text=True,
            check=False,
        )

    def must(self, script: str, *, inside: bool = True, **environment: str) -> str:
        process = self.run(script, inside=inside, **environment)
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout


def why_impossible() -> str:
    """Empty where a machine can be made."""
    if os.geteuid():
        return "only root may make namespaces"
    absent = [name for name in NEEDED if shutil.which(name, path=PATH) is None]
    if absent:
        return f"without {', '.join(absent)}"
    process = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stderr


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    for name in ("layer", "disk"):
        (folder / name).mkdir()
    (folder / "systemctl").write_text(SYSTEMCTL)
    log = (folder / "machine.log").open("w")
    unshare = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", SETUP],
        env={"PATH": PATH, "FOLDER": str(folder)},
        stdout=log,
        stderr=log,
    )
    try:
        until(
            lambda: (folder / "ready").exists() or unshare.poll() is not None,
            30,
            (folder / "machine.log").read_text,
        )
        assert unshare.poll() is None, (folder / "machine.log").read_text()
        children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text().split()
        yield Machine(int(children[0]), folder)
    finally:
        unshare.kill()
        unshare.wait(30)
        log.close()


def copy_code(target: Path) -> None:
    """The files that git keeps or would keep, as a checkout has them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


def start_packaged(new: Machine, *, durable: bool = False) -> None:
    """What Debian starts when it installs the packages; the database does not wait for a disk that is thrown away."""
    setting = "" if durable else "--pgoption fsync=off"
    new.must(f"pg_createcluster {setting} $(ls /usr/lib/postgresql | sort -V | tail -n 1) main")
    new.must("systemctl start postgresql redis-server")


def read_steps() -> str:
    """The fenced block of README's section on production."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Production\n")[1]
    match = re.search(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert match
    return match[1]
