"""Messages as files: nobody sees one that is not whole, and one that is not whole ends no worker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue

from config import broker

QUEUE = Queue("assay", Exchange("assay"), routing_key="assay")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("messages", "processed", "control"):
        (tmp_path / name).mkdir()
    broker.Transport.global_state.clear()  # what this process has bound in another test's folder
    return tmp_path


def connected(folder: Path) -> Connection:
    messages = str(folder / "messages")
    options = {
        "data_folder_in": messages,
        "data_folder_out": messages,
        "processed_folder": str(folder / "processed"),
        "control_folder": str(folder / "control"),
    }
    return Connection("filesystem://", transport="config.broker:Transport", transport_options=options)


@pytest.fixture
def connection(folder: Path) -> Iterator[Connection]:
    with connected(folder) as opened:
        yield opened


@pytest.fixture
def channel(connection: Connection) -> Any:
    opened = connection.channel()
    QUEUE(opened).declare()
    return opened


def send(channel: Any, *bodies: Any) -> None:
    producer = channel.connection.client.Producer(channel)
    for body in bodies:
        producer.publish(body, exchange="assay", routing_key="assay")


def received(channel: Any) -> list[Any]:
    messages = []
    while (message := QUEUE(channel).get(no_ack=True)) is not None:
        messages.append(message.payload)
    return messages


def test_the_settings_name_it(settings: Any) -> None:
    assert settings.CELERY_BROKER_TRANSPORT == "config.broker:Transport"


def test_messages_come_in_their_order(channel: Any) -> None:
    send(channel, *range(20))
    assert received(channel) == list(range(20))
    assert received(channel) == []


def test_a_message_that_is_being_written_is_not_there_yet(
    channel: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Path.write_text

    def looked_at(path: Path, text: str, **options: Any) -> int:
        path.touch()
        with pytest.raises(Empty):
            channel._get("assay")
        return written(path, text, **options)

    monkeypatch.setattr(Path, "write_text", looked_at)
    send(channel, "whole")
    assert received(channel) == ["whole"]
    assert not list((folder / "messages").iterdir())


@pytest.mark.parametrize("left", ["", '{"body": "cut o'])
def test_what_a_killed_writer_left_is_passed_over(
    channel: Any, folder: Path, left: str, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "messages" / "0_x.assay.msg").write_text(left)
    send(channel, "next")
    assert received(channel) == ["next"]
    assert "not whole" in caplog.text


def test_a_table_of_queues_that_is_not_whole_is_made_again(channel: Any, folder: Path) -> None:
    (folder / "control" / "assay.exchange").write_text("")
    send(channel, "to nobody")
    broker.Transport.global_state.clear()  # as a process that begins
    QUEUE(channel).declare()
    send(channel, "to the queue")
    assert received(channel) == ["to the queue"]


def test_queues_that_are_bound_at_once_are_all_bound(folder: Path) -> None:
    def bind(number: int) -> None:
        with connected(folder) as opened:
            Queue(f"q{number}", Exchange("assay"), routing_key=f"k{number}")(opened.channel()).declare()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(bind, range(40)))
    with connected(folder) as opened:
        assert {binding.queue for binding in opened.channel().get_table("assay")} == {
            f"q{n}" for n in range(40)
        }


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.test_broker import connected, send
with connected(Path(sys.argv[1])) as connection:
    send(connection.channel(), *[f"{sys.argv[3]}-{n}" for n in range(300)])
"""


def test_what_several_processes_write_at_once_all_arrives(channel: Any, folder: Path) -> None:
    root = str(Path(broker.__file__).parent.parent)
    command = [sys.executable, "-c", WRITER, str(folder), root]
    writers = [subprocess.Popen([*command, str(number)]) for number in range(2)]
    messages: list[Any] = []
    while any(writer.poll() is None for writer in writers):
        messages += received(channel)
    messages += received(channel)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert sorted(messages) == sorted(f"{number}-{n}" for number in range(2) for n in range(300))
