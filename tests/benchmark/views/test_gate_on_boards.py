"""How a run's scorer was promoted stands wherever its board is read: page, report, files, shared links."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils.translation import override

from annotation.models import Guideline, Person
from annotation.services.studies import find_or_make_study
from benchmark.models import BenchmarkRun
from benchmark.services.sharing import share_run
from benchmark.views.leaderboards.reports.exports import as_json, board_to_csv, board_to_latex
from scoring.models import Promotion
from tests.benchmark.boards import finished_run
from tests.support import FLAMES_GUIDELINE

REASON = "=The old one <i>cannot</i> read tables & 100% of them matter."


@pytest.fixture
def run(db: None) -> BenchmarkRun:
    guideline: Guideline = FLAMES_GUIDELINE.load()
    return finished_run(guideline, models=2, prompts=120, gold=1.0)


def promote(run: BenchmarkRun, *, outcome: str | None = "not_shown", reason: str = REASON) -> Promotion:
    difference = {"value": -0.01, "low": -0.083, "high": 0.061}
    comparison = {
        "criterion": "safety",
        "n": 170,
        "prompts": 34,
        "difference": difference,
        "outcome": outcome,
    }
    rivals = [
        {"role": role, "scorer": f"{role}-one", "criteria": [comparison]} for role in ("current", "best")
    ]
    verdict = {
        "version": 2,
        "outcome": outcome,
        "first": outcome is None,
        "passed": not reason,
        "refused": False,
        "margin": 0.02,
        "reasons": [],
        "rivals": rivals if outcome else [],
        "attempt": 2,
        "raised_from": None,
    }
    kind = Promotion.Kind.REASON if reason else Promotion.Kind.PASSED
    return Promotion.objects.create(
        study=find_or_make_study(),
        guideline_name="flames",
        number=1,
        kind=kind,
        scorer=run.scorer,
        verdict=verdict,
        reason=reason,
    )


def page_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return re.sub(r"\s+", " ", answer.content.decode())


def test_a_reason_stands_on_every_page_of_the_board_escaped(
    run: BenchmarkRun, client: Client, he: Person
) -> None:
    promote(run)
    client.force_login(he)
    board = reverse("run", args=[run.name])
    escaped = "=The old one &lt;i&gt;cannot&lt;/i&gt; read tables &amp; 100% of them matter."
    for address in (board, f"{board}?view=pairs"):
        page = page_of(client, address)
        assert f"A researcher promoted it for this reason: {escaped}" in page
    _link, token = share_run(run=run, actor=he)
    client.logout()
    shared = reverse("shared", args=[token])
    for address in (shared, f"{shared}?view=lineage"):
        assert escaped in page_of(client, address)
    lineage = page_of(client, f"{shared}?view=lineage")
    assert "Not shown: the labels do not rule out that it loses 2.0 points" in lineage
    assert "Safety: -8.3 to +6.1 points (170 labels)." in lineage
    assert "Safety, beside the best of them: -8.3 to +6.1 points (170 labels)." in lineage
    # who was compared is no business of outsiders
    assert "current-one" not in lineage
    assert "best-one" not in lineage


def test_reports_and_files_say_how_the_scorer_was_promoted(
    run: BenchmarkRun, client: Client, he: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    promote(run)
    client.force_login(he)
    report = page_of(client, f"{reverse('run-export', args=[run.name])}?format=report")
    assert "A researcher promoted it for this reason" in report
    latex = re.sub(r"\s+", " ", board_to_latex(run, "en", he))
    assert r"read tables \& 100\% of them matter." in latex
    rows = list(csv.DictReader(io.StringIO(board_to_csv(run, he))))
    assert {(row["gate"], row["gate_margin"]) for row in rows} == {("not_shown", "0.02")}
    assert {row["gate_reason"] for row in rows} == {"'" + REASON}
    gate = json.loads(as_json(run, he))["gate"]
    assert (gate["outcome"], gate["margin"], gate["reason"], gate["attempt"]) == (
        "not_shown",
        0.02,
        REASON,
        2,
    )
    assert [row["role"] for row in gate["comparisons"]] == ["current", "best"]
    assert gate["comparisons"][0]["difference"] == {"value": -0.01, "low": -0.083, "high": 0.061}
    call_command("leaderboard", run.name, "--json")
    assert json.loads(capsys.readouterr().out)["gate"] == gate


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        ("not_worse", "a loss of 2.0 points of accuracy or more is ruled out"),
        (None, "It was the first scorer of its guideline"),
    ],
)
def test_a_scorer_that_passed_has_its_verdict_in_the_lineage_and_no_warning(
    run: BenchmarkRun, client: Client, he: Person, outcome: str | None, sentence: str
) -> None:
    promote(run, outcome=outcome, reason="")
    client.force_login(he)
    board = reverse("run", args=[run.name])
    assert sentence in page_of(client, f"{board}?view=lineage")
    assert "A researcher promoted it" not in page_of(client, board)


def test_a_board_of_a_scorer_that_was_never_current_says_so_and_its_files_leave_it_blank(
    run: BenchmarkRun, client: Client, he: Person
) -> None:
    client.force_login(he)
    assert "It was never the current scorer" in page_of(
        client, f"{reverse('run', args=[run.name])}?view=lineage"
    )
    assert json.loads(as_json(run, he))["gate"] is None
    rows: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(board_to_csv(run, he))))
    assert {(row["gate"], row["gate_reason"]) for row in rows} == {("", "")}


def test_the_reason_is_told_in_chinese_too(run: BenchmarkRun, he: Person) -> None:
    promote(run)
    with override("zh-hans"):
        latex = board_to_latex(run, "zh-hans", he)
    assert "未获证明" in latex
    assert "一名研究员以此理由晋升了它" in latex
