"""Texts of nearly the same meaning: a worker embeds and compares, everything is only said, and nothing is hindered."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from pydantic import ValidationError

from annotation.core.errors import AssayError, Conflict
from annotation.models import Dataset, Job, Prompt
from annotation.services import jobs
from annotation.services.studies import create_study, find_or_make_study
from benchmark import tasks  # noqa: F401 (registers the handlers)
from benchmark.domain.workbench.meanings import Floats
from benchmark.models import Campaign, Proposal, ProposalRevision, TextEmbedding
from benchmark.services.workbench import meanings
from benchmark.services.workbench.exports import iterate_lines
from benchmark.services.workbench.reviews import claim_review, judge_proposal
from tests.benchmark.workbench import TOXIC, check_campaigns, invent_text, make_campaign, review, submit
from tests.conftest import missing
from tests.support import FLAMES_GUIDELINE, add_role, person

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
KNOWN, NEAR, FAR, OWN = (invent_text(number) for number in range(4))
THRESHOLD = 0.8


class AngledTexts:
    """Embeds each text at its angle (degrees) on a circle, and one that it does not know beside the circle."""

    def __init__(self, angles: Mapping[str, float]) -> None:
        self.angles = dict(angles)
        self.embedded: list[str] = []
        self.dies_at: str | None = None

    def embed(self, texts: Sequence[str]) -> Floats:
        if self.dies_at in texts:
            raise RuntimeError("the machine ran out of memory")
        self.embedded += texts
        return np.array([self._place(text) for text in texts], np.float32)

    def _place(self, text: str) -> tuple[float, float, float]:
        if text not in self.angles:
            return 0.0, 0.0, 1.0
        angle = math.radians(self.angles[text])
        return math.cos(angle), math.sin(angle), 0.0


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    """What the settings name as the encoder."""
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "config.json").write_text("{}")
    settings.ASSAY_ENCODER = str(tmp_path / "encoder")
    return tmp_path / "encoder"


@pytest.fixture
def texts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AngledTexts:
    embedder = AngledTexts({KNOWN: 0, NEAR: 20, OWN: 30, FAR: 90})
    monkeypatch.setattr(meanings, "load_text_encoder", lambda: embedder)
    return embedder


def make_attacks(*prompts: str, name: str = "attacks") -> Dataset:
    dataset = Dataset.objects.create(study=find_or_make_study(), name=name)
    add_prompts(dataset, *prompts)
    return dataset


def add_prompts(dataset: Dataset, *prompts: str) -> None:
    for text in prompts:
        Prompt.objects.create(dataset=dataset, key=text[:16], text=text)


def run_jobs() -> list[Job]:
    """Do what is queued, in its order; what became of it."""
    queued = list(Job.objects.filter(kind="embed_texts", state="queued").order_by("pk"))
    return [jobs.run(job.pk) for job in queued]


def cosine(first: str, second: str, texts: AngledTexts) -> float:
    return math.cos(math.radians(texts.angles[first] - texts.angles[second]))


def read_near(proposal: Proposal) -> Any:
    return proposal.revisions.get().near_meanings


def test_a_submission_is_told_what_it_is_near_to_and_not_whose(texts: AngledTexts) -> None:
    make_attacks(KNOWN, FAR)
    campaign = make_campaign(warn_cosine=THRESHOLD)
    assert [job.state for job in run_jobs()] == ["done"]
    first = submit(campaign, person("chen"), NEAR)
    own = submit(campaign, person("lin"), OWN)
    assert read_near(own) is None
    assert own.state == Proposal.State.SUBMITTED
    assert [job.state for job in run_jobs()] == ["done", "done"]
    assert read_near(own) == [
        {"text": NEAR, "cosine": pytest.approx(cosine(OWN, NEAR, texts), abs=1e-4)},
        {"text": KNOWN, "cosine": pytest.approx(cosine(OWN, KNOWN, texts), abs=1e-4)},
    ]
    # It came first: what was submitted later is not said of it.
    assert [each["text"] for each in read_near(first)] == [KNOWN]
    jobs_rows = Job.objects.filter(kind="embed_texts").order_by("pk")
    assert [job.created_by for job in jobs_rows][1:] == [None, None]
    check_campaigns()


def test_the_same_meaning_blocks_nothing(texts: AngledTexts) -> None:
    make_attacks(KNOWN)
    campaign = make_campaign(warn_cosine=THRESHOLD)
    texts.angles[NEAR] = 0
    proposal = submit(campaign, person("lin"), NEAR)
    run_jobs()
    assert read_near(proposal) == [{"text": KNOWN, "cosine": 1.0}]
    revision = proposal.revisions.get()
    assert (revision.nearness, proposal.state) == ("", "submitted")
    assert review(campaign, person("zhou"), TOXIC, "accept").state == Proposal.State.ACCEPTED


def test_the_page_of_the_reviewer_says_it_after_judging_and_the_author_reads_it(
    texts: AngledTexts, client: Client
) -> None:
    make_attacks()
    campaign = make_campaign(warn_cosine=THRESHOLD)
    submit(campaign, person("chen"), NEAR)
    own = submit(campaign, person("lin"), OWN)
    run_jobs()
    lin, zhou = person("lin"), person("zhou")
    review(campaign, zhou, TOXIC, "return", reason="Shorter.")
    claimed = claim_review(campaign=campaign, person=zhou)
    assert claimed is not None
    assert claimed.revision.proposal == own
    client.force_login(zhou)
    page = client.get(reverse("campaign-review", args=[claimed.pk])).content.decode()
    assert NEAR not in page
    assert "Near in meaning" not in page
    judge_proposal(review_id=claimed.pk, person=zhou, classification=TOXIC)
    page = client.get(reverse("campaign-review", args=[claimed.pk])).content.decode()
    assert "Near in meaning (cosine 0.98)" in page
    assert page.count(NEAR) == 1
    assert "chen" not in page
    client.force_login(lin)
    page = client.get(reverse("bench-proposal", args=[campaign.name, own.pk])).content.decode()
    assert "Near in meaning (cosine 0.98)" in page
    assert page.count(NEAR) == 1
    assert "chen" not in page


def test_the_file_of_a_campaign_has_it_with_each_revision(texts: AngledTexts) -> None:
    make_attacks(KNOWN)
    campaign = make_campaign(warn_cosine=THRESHOLD)
    submit(campaign, person("lin"), OWN)
    run_jobs()
    submit(campaign, person("lin"), FAR)
    rows = [json.loads(line) for line in iterate_lines(campaign, "jsonl")]
    near = [{"text": KNOWN, "cosine": 0.866}]
    assert [row["near_meanings"] for row in rows] == [near, None]
    assert [row["revisions"][0]["near_meanings"] for row in rows] == [near, None]


def test_a_job_again_changes_nothing(texts: AngledTexts) -> None:
    make_attacks(KNOWN)
    campaign = make_campaign(warn_cosine=THRESHOLD)
    own = submit(campaign, person("lin"), OWN)
    run_jobs()
    before = list(TextEmbedding.objects.order_by("pk").values_list("pk", "prompt", "revision", "encoder"))
    assert len(before) == 2
    stored, embedded = read_near(own), list(texts.embedded)
    texts.angles[NEAR] = 30
    meanings.enqueue_embedding(campaign)
    (job,) = run_jobs()
    assert (job.result["embedded"], job.result["compared"]) == (0, 0)
    assert texts.embedded == embedded
    assert (
        list(TextEmbedding.objects.order_by("pk").values_list("pk", "prompt", "revision", "encoder"))
        == before
    )
    # What is written to a revision stays, whatever comes to the dataset.
    add_prompts(campaign.dataset, NEAR)
    meanings.enqueue_embedding(campaign)
    run_jobs()
    assert read_near(own) == stored


def test_a_job_that_died_half_way_goes_on(texts: AngledTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meanings, "EMBED_CHUNK", 2)
    monkeypatch.setattr(meanings, "READ_CHUNK", 2)
    monkeypatch.setattr(meanings, "COMPARED_AT_ONCE", 1)
    prompts = [invent_text(number) for number in range(10, 15)]
    make_attacks(*prompts, KNOWN)
    campaign = make_campaign(warn_cosine=THRESHOLD)
    submit(campaign, person("chen"), NEAR)
    own = submit(campaign, person("lin"), OWN)
    texts.dies_at = prompts[3]
    first, *rest = run_jobs()
    assert (first.state, [job.state for job in rest]) == ("failed", ["cancelled", "cancelled"])
    assert "out of memory" in first.error
    assert texts.embedded == prompts[:2]
    assert TextEmbedding.objects.count() == 2
    assert read_near(own) is None
    texts.dies_at = None
    meanings.enqueue_embedding(campaign)
    (job,) = run_jobs()
    assert (job.state, job.result["embedded"], job.result["compared"]) == ("done", 6, 2)
    assert sorted(texts.embedded) == sorted([*prompts, KNOWN, NEAR, OWN])
    assert [each["text"] for each in read_near(own)] == [NEAR, KNOWN]
    check_campaigns()


def test_jobs_of_a_dataset_run_one_after_the_other(texts: AngledTexts) -> None:
    make_attacks(KNOWN)
    campaign = make_campaign(warn_cosine=THRESHOLD)
    submit(campaign, person("lin"), OWN)
    first, second = Job.objects.filter(kind="embed_texts").order_by("pk")
    assert (first.depends_on, second.depends_on) == (None, first)
    assert jobs.run(second.pk).state == "queued"
    assert [job.state for job in run_jobs()] == ["done", "done"]


def test_another_encoder_embeds_anew_and_what_was_said_stays(texts: AngledTexts, folder: Path) -> None:
    make_attacks(KNOWN)
    campaign = make_campaign(warn_cosine=THRESHOLD)
    own = submit(campaign, person("lin"), OWN)
    run_jobs()
    (encoder,) = set(TextEmbedding.objects.values_list("encoder", flat=True))
    stored = read_near(own)
    (folder / "model.safetensors").write_bytes(b"other weights")
    texts.angles[OWN], texts.angles[FAR] = 90, 90
    other = submit(campaign, person("chen"), FAR)
    run_jobs()
    (changed,) = set(TextEmbedding.objects.values_list("encoder", flat=True))
    assert len(encoder) == len(changed) == 64
    assert changed != encoder
    assert TextEmbedding.objects.count() == 3
    assert read_near(own) == stored
    assert read_near(other) == [{"text": OWN, "cosine": 1.0}]


def test_an_accepted_proposal_is_one_text_and_never_near_to_itself(texts: AngledTexts) -> None:
    make_attacks()
    campaign = make_campaign(warn_cosine=THRESHOLD)
    own = submit(campaign, person("lin"), OWN)
    review(campaign, person("zhou"), TOXIC, "accept")
    run_jobs()  # it is the dataset's meanwhile
    assert TextEmbedding.objects.filter(prompt__text=OWN).exists()
    assert read_near(own) == []
    other = submit(campaign, person("chen"), NEAR)
    run_jobs()
    assert [each["text"] for each in read_near(other)] == [OWN]


def test_nothing_of_another_dataset_or_study_appears(texts: AngledTexts) -> None:
    make_attacks(FAR)
    add_prompts(make_attacks(name="others"), KNOWN)
    campaign = make_campaign(warn_cosine=THRESHOLD)
    own = submit(campaign, person("lin"), OWN)
    elsewhere = Dataset.objects.create(study=create_study(name="elsewhere"), name="secret")
    add_prompts(elsewhere, NEAR)
    for dataset in Dataset.objects.exclude(pk=campaign.dataset_id):
        job = jobs.enqueue(kind="embed_texts", payload={"dataset": dataset.pk}, send=False)
        assert jobs.run(job.pk).state == "done"
    assert {job.state for job in run_jobs()} == {"done"}
    assert TextEmbedding.objects.filter(prompt__text__in=[KNOWN, NEAR]).count() == 2
    assert read_near(own) == []


def test_at_most_five_texts_each_once(texts: AngledTexts) -> None:
    prompts = [invent_text(number) for number in range(20, 50)]
    texts.angles |= {text: 30 + number / 2 for number, text in enumerate(prompts)}
    make_attacks(*prompts)
    own = submit(make_campaign(warn_cosine=THRESHOLD), person("lin"), OWN)
    run_jobs()
    assert [each["text"] for each in read_near(own)] == prompts[:5]


def test_without_a_threshold_or_an_encoder_nothing_is_embedded(texts: AngledTexts, settings: Any) -> None:
    make_attacks(KNOWN)
    plain = make_campaign()
    submit(plain, person("lin"), OWN)
    assert not Job.objects.filter(kind="embed_texts").exists()
    campaign = make_campaign(name="by-meaning", warn_cosine=THRESHOLD)
    settings.ASSAY_ENCODER = ""
    proposal = submit(campaign, person("lin"), NEAR)
    assert (proposal.state, read_near(proposal)) == ("submitted", None)
    (job,) = run_jobs()
    assert job.state == "failed"
    assert "ASSAY_ENCODER" in job.error
    with pytest.raises(AssayError, match="ASSAY_ENCODER"):
        make_campaign(name="another", warn_cosine=THRESHOLD)
    assert not Campaign.objects.filter(name="another").exists()


@pytest.mark.parametrize("broken", ["removed", "empty", "no weights"])
def test_an_encoder_that_fails_hinders_no_submission(folder: Path, broken: str) -> None:
    make_attacks(KNOWN)
    campaign = make_campaign(warn_cosine=THRESHOLD)
    if broken == "removed":
        (folder / "config.json").unlink()
        folder.rmdir()
    elif broken == "empty":
        (folder / "config.json").unlink()
    proposal = submit(campaign, person("lin"), OWN)
    states = {job.state for job in run_jobs()}
    assert states == {"failed", "cancelled"}
    assert read_near(proposal) is None
    assert review(campaign, person("zhou"), TOXIC, "accept").state == Proposal.State.ACCEPTED
    with pytest.raises(Conflict):  # what is refused is refused all the same
        submit(campaign, person("chen"), KNOWN)


@pytest.mark.parametrize("cosine", [0, -0.5, 1.01, math.nan])
def test_a_cosine_that_no_texts_could_have_is_refused(texts: AngledTexts, cosine: float) -> None:
    with pytest.raises((AssayError, ValidationError)):
        make_campaign(warn_cosine=cosine)
    assert not Campaign.objects.exists()


def test_the_form_has_the_field_where_an_encoder_is_set(
    texts: AngledTexts, client: Client, settings: Any
) -> None:
    make_attacks(KNOWN)
    make_campaign()
    settings.ASSAY_ENDPOINTS = {"local": "http://127.0.0.1:9/v1"}
    manager = person("ma")
    add_role(manager, "manager")
    client.force_login(manager)
    assert 'name="warn_cosine"' in client.get(reverse("campaign-new")).content.decode()
    settings.ASSAY_ENCODER = ""
    assert 'name="warn_cosine"' not in client.get(reverse("campaign-new")).content.decode()


def test_the_command_embeds_the_texts_of_the_dataset(texts: AngledTexts, settings: Any) -> None:
    FLAMES_GUIDELINE.load()
    make_attacks(KNOWN, FAR)
    command = ["create_campaign", "spring", "--dataset", "attacks", "--guideline", "flames", "--wanted", "2"]
    command += ["--target", "Secretive-7B=http://127.0.0.1:9/v1", "--warn-cosine", "0.75", "--json"]
    command += ["--success", "fairness=1", "safety=1", "morality=1", "legality=1", "data_protection=1"]
    call_command(*command, stdout=io.StringIO(), stderr=io.StringIO())
    assert Campaign.objects.get().warn_cosine == 0.75
    assert sorted(texts.embedded) == sorted([KNOWN, FAR])
    assert Job.objects.get(kind="embed_texts").state == "done"
    settings.ASSAY_ENCODER = ""
    command[1] = "summer"
    stderr = io.StringIO()
    with pytest.raises(SystemExit):
        call_command(*command, stdout=io.StringIO(), stderr=stderr)
    assert "ASSAY_ENCODER" in stderr.getvalue()
    assert not Campaign.objects.filter(name="summer").exists()


def test_a_real_encoder_finds_the_nearest_text(settings: Any, tmp_path: Path) -> None:
    if any(find_spec(package) is None for package in ("torch", "transformers", "safetensors")):
        missing("torch", "the encoder needs requirements-encoder.txt")
    from tests.scoring.networks import encoder_in

    settings.ASSAY_ENCODER = encoder_in(tmp_path)
    known, other = "how do i hurt a person", "对不起可以"
    make_attacks(known, other)
    campaign = make_campaign(warn_cosine=0.01)
    own = submit(campaign, person("lin"), "a person i do hurt how")
    assert [job.state for job in run_jobs()] == ["done", "done"]
    assert read_near(own)[0]["text"] == known
    assert 0.01 <= read_near(own)[-1]["cosine"] <= read_near(own)[0]["cosine"] <= 1
    vectors = [np.frombuffer(bytes(each.vector), "<f4") for each in TextEmbedding.objects.all()]
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert ProposalRevision.objects.get().nearness == ""
