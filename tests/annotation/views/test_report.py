"""The report: what it says is what happened, in every form, and nobody is named in it."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.latex import escape_latex
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, EvaluatedModel, Person, Prompt
from annotation.selectors.reports import build_batches_report, build_release_report
from annotation.services.people.people import set_roles
from annotation.services.releases import cut_release
from annotation.views.reports import render_latex
from tests.support import decide_next, label_next

# 1 = 1, 3 = 3, decided as the first (1), the second (3), and neither (2); one dispute open.
LABELS = ((1, 1), (3, 3), (1, 3), (1, 3), (1, 3), (1, 2))


@pytest.fixture
def settled(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    for first, other in LABELS:
        label_next(batch, lin, first)
        label_next(batch, chen, other)
    for value in (1, 3, 2):
        decide_next(batch, wu, value)
    return batch


@pytest.mark.django_db
def test_figures_are_what_happened(settled: Batch):
    report = build_batches_report([settled])
    every, *by_dimension = report["disputes"]
    assert (every["tasks"], every["disputed"]) == (6, 4)
    assert every["share"]["value"] == pytest.approx(4 / 6)
    assert sum(row["disputed"] for row in by_dimension) == 4
    outcomes = report["outcomes"]
    assert [outcomes[name] for name in ("decided", "first", "second", "other", "neither")] == [3, 1, 1, 0, 1]
    assert (outcomes["verdicts"], outcomes["changed"], outcomes["alike_share"]) == (3, 0, None)
    assert report["reasons"][0]["decisions"] == 3
    assert report["effort"]["annotations"] == {"fewest": 6, "median": 6, "most": 6}
    assert report["effort"]["median_seconds"] is None
    assert report["gold"]["by_source"] == {"adjudicated": 3, "unanimous": 2}
    assert report["agreement"][0]["percent_agreement"]["value"] == pytest.approx(2 / 6)


@pytest.mark.django_db
def test_nobody_and_no_model_is_named(settled: Batch, lin: Person, chen: Person, wu: Person):
    texts = json.dumps(build_batches_report([settled]), ensure_ascii=False) + render_latex(
        build_batches_report([settled]), "en"
    )
    names = {*EvaluatedModel.objects.values_list("name", flat=True), "lin", "chen", "wu"}
    assert not [name for name in names if re.search(rf"\b{re.escape(name)}\b", texts)]


@pytest.mark.django_db
def test_a_release_is_told_as_it_was_frozen(settled: Batch, lin: Person, chen: Person):
    release = cut_release(ReleaseSpec(name="frozen", batches=[settled]))
    before = build_release_report(release)
    for person in (lin, chen):
        label_next(settled, person, 3)
    after = build_release_report(release)
    assert before["agreement"] == after["agreement"]
    assert before["release"] == {
        "name": "frozen",
        "sha256": release.sha256,
        "created": release.manifest["created"],
    }
    release.manifest = {"counts": {}}  # as of the first version
    assert "sha256" in render_latex(build_release_report(release), "en")


@pytest.mark.django_db
def test_the_page_opens_in_both_languages_and_its_files_with_it(settled: Batch, ma: Person, client: Client):
    client.force_login(ma)
    page = client.get(reverse("report"), {"batch": settled.name})
    assert "Krippendorff" in page.text
    assert "3: as the first annotator 1, as the second 1, as none of them 1" in page.text
    chinese = client.get(reverse("report"), {"batch": settled.name}, headers={"accept-language": "zh-hans"})
    assert "标注" in chinese.text
    as_json = client.get(reverse("report"), {"batch": settled.name, "format": "json"})
    assert as_json.json()["outcomes"]["neither"] == 1
    board_to_latex = client.get(reverse("report"), {"batch": settled.name, "format": "latex"})
    assert r"\toprule" in board_to_latex.text
    assert client.get(reverse("report"), {"batch": settled.name, "format": "pdf"}).status_code == 400
    assert client.get(reverse("report"), {"batch": "none"}).status_code == 404
    assert settled.name in client.get(reverse("report")).text


@pytest.mark.django_db
def test_its_tables_call_dimensions_in_the_readers_language(settled: Batch, ma: Person, client: Client):
    client.force_login(ma)
    release = cut_release(ReleaseSpec(name="r", batches=[settled]))
    for parameters in ({"batch": settled.name}, {"release": release.name}):
        page = client.get(reverse("report"), parameters, headers={"accept-language": "zh-hans"}).text
        # In the table of the disputes, and in that of the agreement.
        assert page.count("不安全的提示") == 2, parameters
        assert ">unsafe<" not in page


@pytest.mark.django_db
def test_what_the_policy_wants_is_not_told_as_done(settled: Batch):
    assert settled.second_reading_share == 0.05
    text = render_latex(build_batches_report([settled]), "en")
    assert r"5\% of the decisions were to come back for repeat adjudication" in text


@pytest.mark.django_db
def test_it_is_sealed_for_who_works_in_the_batch(settled: Batch, lin: Person, client: Client):
    set_roles(person=lin, roles=["annotator", "manager"])
    client.force_login(lin)
    assert client.get(reverse("report"), {"batch": settled.name}).status_code == 403
    assert settled.name not in client.get(reverse("report")).text


@pytest.mark.django_db
def test_the_command_writes_it_once(settled: Batch, tmp_path: Path):
    out = tmp_path / "report.tex"
    call_command("report", "--batches", settled.name, "--out", str(out), stdout=StringIO())
    assert balanced(out.read_text(encoding="utf-8"))
    with pytest.raises(SystemExit):
        call_command("report", "--batches", settled.name, "--out", str(out), stderr=StringIO())
    output = StringIO()
    call_command("report", "--batches", settled.name, "--json", stdout=output)
    assert json.loads(output.getvalue())["batches"] == [settled.name]


@pytest.mark.django_db
def test_hostile_names_stay_text_in_latex(settled: Batch):
    Batch.objects.filter(pk=settled.pk).update(name=r"\input{x} 100% & #1_$^~")
    Prompt.objects.update(dimension=r"}\end{tabular}")
    settled.refresh_from_db()
    document = render_latex(build_batches_report([settled]), "zh-hans")
    assert r"\textbackslash{}input\{x\} 100\% \& \#1\_\$\textasciicircum{}\textasciitilde{}" in document
    assert document.count(r"\end{tabular}") == document.count(r"\begin{tabular}")
    assert balanced(document)


@given(st.text())
def test_escaped_text_is_balanced_and_has_no_command_of_its_own(text: str):
    escaped = escape_latex(text)
    assert balanced(escaped)
    escaped = escaped.replace(r"$\lambda$", "")
    known = (
        r"\\(textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar|dag)\{\}|\\[{}$&#%_]"
    )
    assert "\\" not in re.sub(known, "", escaped)
    assert not re.search(r"(?<!\\)[$&#%_]", escaped)
    assert not set("^~\n\r\0") & set(re.sub(known, "", escaped))


def balanced(text: str) -> bool:
    depth = 0
    for brace in re.sub(r"\\[{}]", "", text):
        depth += {"{": 1, "}": -1}.get(brace, 0)
        if depth < 0:
            return False
    return depth == 0
