"""A database of before: each connected component of its rows becomes a study, and nobody loses what they could do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from annotation.models import AuditEvent, Batch, Dataset, GoldRelease, Job, Study, StudyMembership
from benchmark.models import BenchmarkRun, Judge, JudgeTemplate, PublishedTable
from scoring.models import GateAttempt, Promotion, RegressionCase, Scorer
from tests.former_databases import BringTo, bring_to, elsewhere  # noqa: F401  (fixtures)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
BEFORE = [
    ("annotation", "0033_texts_of_annotations"),
    ("scoring", "0005_gate_attempts"),
    ("benchmark", "0007_draws_of_earlier_plans"),
]


class Site:
    """What a site of before has: a guideline, people in their groups, and a judge's template."""

    def __init__(self, apps: Any) -> None:
        self._apps = apps
        self.guideline = self.make(
            "annotation.Guideline", name="g", version="1", sha256="0" * 64, source="", content={}
        )
        self.collection = self.make("annotation.Collection", name="")
        self.model = self.make("annotation.EvaluatedModel", name="M")
        self.template = self.make("benchmark.JudgeTemplate", guideline_name="g", number=1, text="t")
        self.people = {name: self.add_person(name, role) for name, role in PEOPLE.items()}

    def make(self, model: str, /, **fields: Any) -> Any:
        return self._apps.get_model(model).objects.create(**fields)

    def add_person(self, name: str, role: str) -> Any:
        person = self.make("annotation.Person", username=name, password="!")
        if role:
            person.groups.add(self._apps.get_model("auth.Group").objects.get_or_create(name=role)[0])
        return person

    def add_pipeline(self, name: str, worker: str) -> Any:
        """Dataset, batch, release, scorer, promotion, attempt, regression case, run, table, judge."""
        dataset = self.make("annotation.Dataset", name=f"{name}-data")
        prompt = self.make("annotation.Prompt", dataset=dataset, key="p", text="?")
        response = self.make(
            "annotation.Response",
            prompt=prompt,
            model=self.model,
            collection=self.collection,
            sha256="0" * 64,
        )
        batch = self.make("annotation.Batch", name=f"{name}-batch", guideline=self.guideline)
        self.make("annotation.Stratum", batch=batch, dataset=dataset, model=self.model)
        self.make("annotation.Membership", batch=batch, person=self.people[worker], role="annotator")
        release = self.make(
            "annotation.GoldRelease", name=f"{name}-gold", sha256="0" * 64, labels=1, adjudicated=0
        )
        release.batches.add(batch)
        scorer = self.make(
            "scoring.Scorer",
            name=f"{name}-scorer",
            guideline=self.guideline,
            release=release,
            backbone="ngram",
        )
        job = self.make("annotation.Job", kind="promote_scorer", payload={"scorer": scorer.pk})
        number = self._apps.get_model("scoring.Promotion").objects.count() + 1
        self.make("scoring.GateAttempt", guideline_name="g", number=number, job=job)
        self.make("scoring.Promotion", guideline_name="g", number=number, kind="passed", scorer=scorer)
        self.make("scoring.RegressionCase", guideline_name="g", response=response, criterion="c", refused=[1])
        self.make(
            "benchmark.PublishedTable", guideline_name="g", dataset=dataset, name=name, source="s", rows=[]
        )
        run = self.make(
            "benchmark.BenchmarkRun",
            name=f"{name}-board",
            scorer=scorer,
            dataset=dataset,
            collection=self.collection,
        )
        judge = self.make(
            "benchmark.Judge",
            name=f"{name}-judge",
            guideline=self.guideline,
            kind="endpoint",
            endpoint="http://127.0.0.1",
            template=self.template,
        )
        self.make("benchmark.JudgeRun", judge=judge, dataset=dataset, collection=self.collection)
        for kind, payload in (
            ("run_benchmark", {"run": run.pk}),
            ("release", {"batches": [batch.pk]}),
            ("lost", {"release": 10**6, "batch": batch.pk}),  # what it names first is gone
        ):
            self.make("annotation.Job", kind=kind, payload=payload, title=name)
        return SimpleNamespace(dataset=dataset, batch=batch, release=release, scorer=scorer, run=run)


PEOPLE = {
    "lin": "annotator",
    "chen": "annotator",
    "he": "researcher",
    "ma": "manager",
    "idle": "annotator",
    "none": "",
}


@pytest.fixture
def before(bring_to: BringTo) -> Site:  # noqa: F811
    return Site(bring_to(BEFORE))


def forward() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def roles() -> set[tuple[str, str, str]]:
    rows = StudyMembership.objects.values_list("study__name", "person__username", "role")
    return set(rows)


def test_each_pipeline_becomes_a_study_and_its_jobs_are_of_it(before: Site):
    """One test, because going forward takes longer than all that is asked of it."""
    before.add_pipeline("alpha", "lin")
    beta = before.add_pipeline("beta", "chen")
    gathering = before.make(
        "benchmark.CollectionRun", dataset=beta.dataset, model=before.model, collection=before.collection
    )
    before.make("annotation.Job", kind="collect_responses", payload={"run": gathering.pk}, title="beta")
    before.make("annotation.Job", kind="run_benchmark", payload={"run": 10**6}, title="gone")
    before.make(
        "benchmark.PublishedTable", guideline_name="g", dataset=None, name="beside none", source="s", rows=[]
    )
    forward()
    assert [study.name for study in Study.objects.all()] == ["alpha-data", "beta-data"]
    for name in ("alpha", "beta"):
        study = Study.objects.get(name=f"{name}-data")
        for row in (
            Dataset.objects.get(name=f"{name}-data"),
            Batch.objects.get(name=f"{name}-batch"),
            GoldRelease.objects.get(name=f"{name}-gold"),
            Scorer.objects.get(name=f"{name}-scorer"),
            BenchmarkRun.objects.get(name=f"{name}-board"),
            Judge.objects.get(name=f"{name}-judge"),
            PublishedTable.objects.get(name=name),
            Promotion.objects.get(scorer__name=f"{name}-scorer"),
            GateAttempt.objects.get(job__payload__scorer=Scorer.objects.get(name=f"{name}-scorer").pk),
            RegressionCase.objects.get(response__prompt__dataset__name=f"{name}-data"),
        ):
            assert row.study == study
        judge = Judge.objects.get(name=f"{name}-judge")
        assert judge.template is not None
        assert judge.template.study == study
        (event,) = AuditEvent.objects.filter(target=f"study:{name}-data")
        assert event.data["migrated"]["Scorer"] == 1
    assert list(JudgeTemplate.objects.values_list("guideline_name", "number")) == [("g", 1), ("g", 1)]
    assert roles() == {
        ("alpha-data", "lin", "annotator"),
        ("beta-data", "chen", "annotator"),
        *((f"{name}-data", "he", "researcher") for name in ("alpha", "beta")),
        *((f"{name}-data", "ma", "manager") for name in ("alpha", "beta")),
    }
    titled = Job.objects.exclude(title="")
    assert set(titled.values_list("title", "study__name")) == {
        ("alpha", "alpha-data"),
        ("beta", "beta-data"),
        ("gone", None),
    }
    assert Job.objects.filter(study=None).count() == 1


def test_what_hangs_together_is_the_study_default(before: Site):
    alpha, beta = before.add_pipeline("alpha", "lin"), before.add_pipeline("beta", "chen")
    alpha.release.batches.add(beta.batch)
    forward()
    assert [study.name for study in Study.objects.all()] == ["default"]
    assert ("default", "idle", "annotator") in roles()  # of the only study, whoever has a role
    assert {name for _study, name, _role in roles()} == {"lin", "chen", "he", "ma", "idle"}
    assert JudgeTemplate.objects.count() == 1


def test_a_site_with_people_alone_has_the_study_default_and_an_empty_one_none(before: Site):
    forward()
    assert [study.name for study in Study.objects.all()] == ["default"]
    assert JudgeTemplate.objects.get().study.name == "default"


def test_an_empty_site_has_no_study():
    """The tests' own database is one that all migrations were applied to while it was empty."""
    assert not Study.objects.exists()
