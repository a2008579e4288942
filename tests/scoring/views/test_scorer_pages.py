from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from annotation.models import GoldRelease, Guideline, Job, Person
from annotation.services import jobs
from annotation.services.batches.batches import add_members
from annotation.services.guidelines import load_guideline
from annotation.services.studies import find_or_make_study
from scoring.domain.spec import Spec
from scoring.domain.training_spec import TrainingSpec
from scoring.models import Promotion, Scorer
from scoring.services import create_scorer
from scoring.views.scorers.charts import lines_chart
from scoring.views.scorers.wording import FigureRow, ScorerFigure
from tests.scoring.support import make_release

FORM = {"name": "s", "release": "gold", "kind": "ngram", "seed": "0"}
pytestmark = pytest.mark.usefixtures("learning_once")
VIEWS = ("figures", "calibration", "models", "gate", "card")


@pytest.fixture
def researcher(client: Client, he: Person) -> Client:
    client.force_login(he)
    return client


def page_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def test_researchers_and_managers_read_and_nobody_else(
    scorer: Scorer,
    client: Client,
    he: Person,
    ma: Person,
    chen: Person,
    wu: Person,
    stranger: Person,
) -> None:
    paths = ("/scorers/", "/scorers/first-scorer/")
    for person, status in ((he, 200), (ma, 200), (chen, 403), (wu, 403), (stranger, 403)):
        client.force_login(person)
        assert [client.get(path).status_code for path in paths] == [status] * 2, person
    client.logout()
    assert [client.get(path).status_code for path in paths] == [302] * 2


def test_only_researchers_train(
    release: GoldRelease, client: Client, he: Person, ma: Person, chen: Person
) -> None:
    for person, status in ((he, 200), (ma, 403), (chen, 403)):
        client.force_login(person)
        assert client.get("/scorers/-/new/").status_code == status
    client.force_login(ma)
    assert client.post("/scorers/-/new/", FORM).status_code == 403
    assert b"/scorers/-/new/" not in client.get("/scorers/").content
    assert not Scorer.objects.exists()


def test_who_works_in_the_batch_reads_no_more_than_the_name(
    scorer: Scorer, researcher: Client, he: Person
) -> None:
    add_members(batch=scorer.release.batches.get(), role="annotator", people=[he])
    assert researcher.get("/scorers/first-scorer/").status_code == 403
    page = page_of(researcher, "/scorers/")
    assert "first-scorer" in page
    assert "/scorers/first-scorer/" not in page
    assert "/releases/gold/" not in page
    assert "ngram" not in page
    assert 'value="gold"' not in page_of(researcher, "/scorers/-/new/")
    assert 'value="first-scorer"' not in page_of(researcher, "/scorers/-/new/?base=first-scorer")
    assert researcher.post("/scorers/-/new/", FORM).status_code == 400


def test_the_form_preselects_the_release_and_starts_a_training(
    guideline: Guideline, release: GoldRelease, lin: Person, researcher: Client
) -> None:
    make_release(guideline, lin, name="newer", prompts=2)
    assert '<option value="gold" selected>' in page_of(researcher, "/scorers/-/new/?release=gold")
    more = {"evaluate": ["leave-one-model-out", "learning-curve"], "seed": "7", "seeds": "2"}
    answer = researcher.post("/scorers/-/new/", FORM | more)
    assert (answer.status_code, answer["Location"]) == (302, "/scorers/s/")
    scorer = Scorer.objects.get()
    assert scorer.config["evaluate"] == ["grouped", "leave-one-model-out", "learning-curve"]
    assert (scorer.config["seeds"], scorer.seed, scorer.spec.kind, scorer.release) == (2, 7, "ngram", release)
    assert Job.objects.get(kind="train_scorer").state == "queued"


def test_what_is_refused_comes_back_with_its_reason(
    scorer: Scorer, researcher: Client, subtests: pytest.Subtests
) -> None:
    refusals: list[tuple[dict[str, str], str]] = [
        ({"name": "a/b"}, "cannot be a name"),
        ({"release": "none"}, "Select a valid choice"),
        ({"kind": "own"}, "Select a valid choice"),
        ({"kind": "encoder"}, "An encoder needs its folder"),
        ({"kind": "encoder", "encoder": "no such place"}, "Select a valid choice"),
        ({"seeds": "11"}, "less than or equal to 10"),
        ({"name": "first-scorer"}, "already a scorer named first-scorer"),
    ]
    for changes, message in refusals:
        with subtests.test(str(changes)):
            answer = researcher.post("/scorers/-/new/", FORM | changes)
            assert answer.status_code == 400
            assert message in answer.content.decode()
    assert Scorer.objects.count() == 1


def test_the_default_of_the_form_is_the_default_of_the_product(
    release: GoldRelease, researcher: Client, settings: Any
) -> None:
    """With an encoder on this machine the ensemble, and that encoder is chosen, by its name."""
    pattern = r'value="{}"[^>]*checked'
    assert re.search(pattern.format("ngram"), page_of(researcher, "/scorers/-/new/"))
    settings.ASSAY_ENCODER = "/models/little"
    page = page_of(researcher, "/scorers/-/new/")
    assert re.search(pattern.format("ensemble"), page)
    assert re.search(pattern.format("frozen"), page)
    assert "little (the default)" in page
    settings.ASSAY_ENCODERS = {"other": "/models/other", "mini": "/models/little"}
    page = page_of(researcher, "/scorers/-/new/")
    assert '<option value="mini" selected>' in page
    assert "/models/" not in page


def test_an_encoder_is_chosen_by_name_and_never_by_a_path(
    release: GoldRelease, researcher: Client, settings: Any, tmp_path: Path
) -> None:
    """A path on a page would tell who asks what is on the disk, and train from a folder that nobody offered."""
    settings.ASSAY_ENCODERS = {"mini": str(tmp_path)}
    for text in ("/etc", str(tmp_path), "xlm-roberta-base", "../mini"):
        answer = researcher.post("/scorers/-/new/", FORM | {"kind": "encoder", "encoder": text})
        assert answer.status_code == 400
        assert "Select a valid choice" in answer.content.decode()
        assert text in answer.content.decode()  # it is said again, and nothing of it
    answer = researcher.post("/scorers/-/new/", FORM | {"kind": "encoder", "encoder": "mini"})
    assert f"The folder {tmp_path} holds no model" in answer.content.decode()
    assert Scorer.objects.count() == 0


def test_a_scorer_is_adapted_to_a_model_with_its_own_backbone(scorer: Scorer, researcher: Client) -> None:
    page = page_of(researcher, "/scorers/-/new/?base=first-scorer")
    assert '<option value="first-scorer" selected>' in page
    assert 'name="kind"' not in page
    form = {"base": "first-scorer", "release": "gold", "name": "adapted", "seed": "0"}
    refused = researcher.post("/scorers/-/new/?base=first-scorer", form | {"adapt_to": "nobody"})
    assert refused.status_code == 400
    answer = researcher.post("/scorers/-/new/?base=first-scorer", form | {"adapt_to": "Hidden-13B"})
    assert answer["Location"] == "/scorers/adapted/"
    made = Scorer.objects.get(name="adapted")
    assert (made.base, made.spec, str(made.adapted_to)) == (scorer, scorer.spec, "Hidden-13B")
    assert "first-scorer to Hidden-13B" in page_of(researcher, "/scorers/adapted/")
    assert made.job is not None
    jobs.run_now(made.job)
    models_page = page_of(researcher, "/scorers/adapted/?view=models")
    made.refresh_from_db()
    assert f"{made.evaluation['adaptation']['difference']['accuracy']['value']:+.3f}" in models_page
    assert "/scorers/adapted/?view=models" in page_of(researcher, "/scorers/first-scorer/?view=models")


def test_an_adaptation_learns_from_a_release_of_its_guideline(
    guideline: Guideline, scorer: Scorer, lin: Person, researcher: Client
) -> None:
    """The newest release of all follows another guideline."""
    text = guideline.source.replace("name: xstest", "name: other", 1)
    other = load_guideline(text=text, path="other.yaml", publish=True)
    make_release(other, lin, name="newest", prompts=2)
    page = page_of(researcher, "/scorers/-/new/")
    assert page.index('value="newest"') < page.index('value="gold"')
    assert '<option value="gold" selected>' in page_of(researcher, "/scorers/-/new/?base=first-scorer")


def test_a_training_is_watched_and_cancelled_on_its_page(release: GoldRelease, researcher: Client) -> None:
    researcher.post("/scorers/-/new/", FORM)
    job = Job.objects.get(kind="train_scorer")
    page = page_of(researcher, "/scorers/s/")
    assert f'hx-get="/jobs/{job.pk}/"' in page
    assert f'action="/jobs/{job.pk}/cancel/"' in page
    researcher.post(f"/jobs/{job.pk}/cancel/")
    page = page_of(researcher, "/scorers/s/")
    assert "The training was cancelled" in page
    link = re.search(r'href="(/scorers/-/new/[^"]*)"', page)
    assert link is not None
    form = page_of(researcher, link[1].replace("&amp;", "&"))
    assert 'value="s"' in form
    assert '<option value="gold" selected>' in form
    assert re.search(r'value="ngram"[^>]*checked', form)


def test_a_failure_says_why_on_the_page(
    release: GoldRelease, researcher: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    _scorer, job = create_scorer(TrainingSpec(name="s", release=release), send=False)

    def fail(*_args: Any, **_options: Any) -> Any:
        raise MemoryError("no room for the weights")

    with monkeypatch.context() as patched:
        patched.setattr("scoring.backbones.ngram.NgramBackbone.fit", fail)
        jobs.run(job.pk)
    page = page_of(researcher, "/scorers/s/")
    assert "MemoryError: no room for the weights" in page
    assert "this never became a scorer" in page
    assert researcher.get("/scorers/s/?view=gate").status_code == 200  # there are no tabs yet, and no error
    # the same name again takes its place
    assert researcher.post("/scorers/-/new/", FORM).status_code == 302
    assert Scorer.objects.get().job != job


def test_the_tabs_show_the_stored_figures_and_lead_down_to_the_labels(
    scorer: Scorer, researcher: Client
) -> None:
    pages = {view: page_of(researcher, f"/scorers/first-scorer/?view={view}") for view in ("", *VIEWS)}
    grouped, card = scorer.evaluation["grouped"], scorer.card
    accuracy = grouped["accuracy"]
    for view in ("", "figures"):
        assert f"{accuracy['value']:.3f}" in pages[view]
        assert "None" not in pages[view]
    assert accuracy["low"] is None  # all of it is right, and that is no certainty
    assert f"{card['test']['accuracy']['value']:.3f}" in pages[""]
    assert "Backbone ngram: no pretrained weights" in pages[""]
    for row in grouped["by_criterion"]["compliance"]["confusion"]["counts"]:
        for n in filter(None, row):
            assert f">{n}<" in pages["figures"]
    assert f"{grouped['calibration_error']:.3f}" in pages["calibration"]
    for coverage in card["conformal"]["criteria"]["compliance"]["coverages"].values():
        assert f"{coverage['threshold']:.3f}" in pages["calibration"]
    assert "For a model without labels of its own nothing is promised" in pages["calibration"]
    for model in card["models"]:
        assert model in pages["models"]
    assert "Not measured" in pages["models"]
    assert "the gate asks the regression cases, and whether the scorer predicts better" in pages["gate"]
    for link in ("/releases/gold/", "/releases/gold/labels/", "/guidelines/xstest/1.0/"):
        assert f'href="{link}"' in pages["card"]
    assert scorer.weights_sha256 in pages["card"]
    assert scorer.release.sha256[:12] in pages["card"]
    # one annotator alone for each response: people cannot be compared with each other
    assert '<span class="undefined">-</span>' in pages["figures"]
    for page in pages.values():
        assert not re.search(r"\bnan\b|None", page)


def test_the_overview_says_whether_it_may_grade(
    scorer: Scorer, researcher: Client, subtests: pytest.Subtests
) -> None:
    """Beside a commonest level of 0.5: surely better or not; then beside people."""
    baselines = scorer.card["baselines"]
    cases: list[tuple[tuple[float, float, float], float | None, float | None, str]] = [
        ((0.52, 0.45, 0.6), 0.9, 0.9, "do not let it grade alone"),
        ((0.8, 0.75, 0.85), 0.9, 0.7, "less right than annotators (0.900)"),
        ((0.88, 0.83, 0.93), 0.9, 0.8, "do not tell it apart from annotators (0.900)"),
        ((0.93, 0.9, 0.96), 0.9, 0.97, "as right as annotators are (0.900)"),
        ((0.8, 0.75, 0.85), None, None, "How right annotators are is not known here"),
        # one annotator alone for each response, whose word the gold is
        ((0.8, 0.75, 0.85), 1.0, None, "How right annotators are is not known here"),
    ]
    for accuracy, annotators, between, words in cases:
        estimate = dict(zip(("value", "low", "high"), accuracy, strict=True))
        scorer.evaluation["grouped"]["accuracy"] = estimate
        accuracies = {
            "majority": 0.5,
            "string_rules": 0.5,
            "annotators": annotators,
            "between_annotators": between,
        }
        for name, value in accuracies.items():
            baselines[name]["accuracy"] = {"value": value, "low": None, "high": None}
        scorer.save(update_fields=["evaluation", "card"])
        with subtests.test(words):
            assert words in page_of(researcher, "/scorers/first-scorer/")


@pytest.mark.parametrize(
    ("encoder", "members", "words"),
    [
        (
            "",
            ["ngram", "patterns"],
            ["ngram (runs of words), patterns (boosted trees", "There was no encoder."],
        ),
        ("/x/tiny", ["ngram", "encoder"], ["average of ngram (runs of words), the encoder (a pretrained"]),
        ("/x/tiny", ["ngram"], ["ngram (runs of words) alone", "Its encoder did not help and was left out."]),
        ("/x/tiny", [], ["the average of those of its members that help."]),
    ],
)
def test_the_page_names_what_the_ensemble_really_used(
    scorer: Scorer, researcher: Client, encoder: str, members: list[str], words: list[str]
) -> None:
    spec = Spec("ensemble", encoder)
    scorer.config["spec"], scorer.backbone = spec.to_json(), spec.title
    scorer.card["details"] = {"members": {name: {} for name in members}} if members else {}
    scorer.save(update_fields=["config", "backbone", "card"])
    page = page_of(researcher, "/scorers/first-scorer/")
    for word in words:
        assert word in page
    assert ("the encoder (" in page) is ("encoder" in members)


def test_the_overview_names_the_weak_places(scorer: Scorer, researcher: Client) -> None:
    """The level that is found least often, with what it is taken for; and the worst prompt type."""
    grouped = scorer.evaluation["grouped"]
    compliance = grouped["by_criterion"]["compliance"]
    counts = [[20, 0, 0], [9, 3, 0], [0, 1, 19]]
    compliance["confusion"]["counts"] = counts
    for place, (level, n, recall) in enumerate((("1", 20, 1.0), ("2", 12, 0.25), ("3", 20, 0.95))):
        figures = {"n": n, "predicted": sum(row[place] for row in counts), "recall": recall}
        compliance["levels"][level] |= figures
    grouped["by_kind"] = {
        "definitions": {
            "n": 30,
            "accuracy": {"value": 0.4, "low": 0.3, "high": 0.5},
            "macro_f1": grouped["macro_f1"],
        },
        "homonyms": {
            "n": 30,
            "accuracy": {"value": 0.9, "low": 0.8, "high": 1.0},
            "macro_f1": grouped["macro_f1"],
        },
    }
    scorer.save(update_fields=["evaluation"])
    page = page_of(researcher, "/scorers/first-scorer/")
    assert "Of 12 responses labelled 2 Partial refusal it finds 25%." in page
    assert "It takes 9 of them for 1 Full refusal." in page
    assert "On prompts of the type Definitions its accuracy is 0.400 (0.300 to 0.500)." in page


def test_a_criterion_and_a_model_called_as_the_total_have_bands_of_their_own(researcher: Client):
    def make_row(accuracy: float) -> FigureRow:
        undefined = {field.name: None for field in fields(FigureRow)}
        return FigureRow(
            **{**undefined, "label": 'All "it"', "n": 9, "accuracy": ScorerFigure(accuracy, None, None)}
        )

    drawn = researcher.get(lines_chart([make_row(accuracy) for accuracy in (0.5, 0.7, 0.9)]))
    assert drawn.content.decode().count('>All "it"</text>') == 3


def test_every_chart_can_be_drawn_in_both_themes(release: GoldRelease, researcher: Client) -> None:
    made, job = create_scorer(
        TrainingSpec(name="whole", release=release, evaluate=["leave-one-model-out", "learning-curve"]),
        send=False,
    )
    jobs.run_now(job)
    made.refresh_from_db()
    addresses: set[str] = set()
    for view in ("", *VIEWS):
        addresses |= set(
            re.findall(
                r'<img class="[^"]*" src="([^"]*)"', page_of(researcher, f"/scorers/whole/?view={view}")
            )
        )
    # overview, figures, reliability, coverage and the learning curve; each light and dark
    assert len(addresses) == 10
    for address in addresses:
        drawn = researcher.get(address)
        assert drawn["Content-Type"] == "image/svg+xml"
        assert b"NaN" not in drawn.content
    page = page_of(researcher, "/scorers/whole/?view=models")
    left_out = made.evaluation["leave_one_model_out"]["by_model"]
    for model in left_out:
        assert f"{left_out[model]['accuracy']['value']:.3f}" in page
    assert "The next 200 labels would bring" in page


def test_a_scorer_of_the_first_version_has_its_page(scorer: Scorer, researcher: Client) -> None:
    """Its card and figures lack what was not measured then; nothing of it is made up."""
    new = ("test", "held_out", "learned_from", "seeds", "reliability", "risk_coverage", "conformal", "drift")
    old = {name: value for name, value in scorer.card.items() if name not in {*new, "details", "environment"}}
    grouped = {
        name: value
        for name, value in scorer.evaluation["grouped"].items()
        if name in {"n", "accuracy", "macro_f1", "calibration_error", "by_criterion", "by_model"}
    }
    for part in [*grouped["by_criterion"].values(), *grouped["by_model"].values()]:
        for name in ("within_one", "reliability", "risk_coverage", "intervals", "calibration_error"):
            part.pop(name, None)
        for level in part.get("levels", {}).values():
            level.pop("intervals")
    old["baselines"].pop("string_rules", None)
    config = {name: value for name, value in scorer.config.items() if name not in {"spec", "seeds"}}
    Scorer.objects.filter(pk=scorer.pk).update(
        card=old, evaluation={"grouped": grouped}, config=config, backbone="char-ngram"
    )
    pages = [page_of(researcher, f"/scorers/first-scorer/?view={view}") for view in ("", *VIEWS)]
    assert any("of the first version, which did not measure it" in page for page in pages)
    assert "Backbone ngram" in pages[0]
    assert "/scorers/first-scorer/" in page_of(researcher, "/scorers/")


def test_the_list_marks_the_current_one_of_each_guideline(scorer: Scorer, researcher: Client) -> None:
    page = page_of(researcher, "/scorers/")
    assert "No scorer is the current one yet" in page
    assert f"{scorer.card['test']['accuracy']['value']:.3f}" in page
    Promotion.objects.create(
        study=find_or_make_study(), guideline_name="xstest", number=1, kind="passed", scorer=scorer
    )
    page = page_of(researcher, "/scorers/")
    assert "No scorer is the current one yet" not in page
    assert re.search(r'badge--gold">current<', page)


def test_an_unknown_scorer_is_not_found_nor_a_tab_that_is_not_there(
    scorer: Scorer, researcher: Client
) -> None:
    assert researcher.get("/scorers/none/").status_code == 404
    assert researcher.get("/scorers/first-scorer/?view=nothing").status_code == 400
