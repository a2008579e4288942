"""Give every row of before its study: one for each connected component of batches, datasets, releases, scorers, runs,
plans and judges. What hangs together by a guideline's name alone was never meant to, and becomes several studies.

Managers and researchers saw everything, and become members of every study; annotators and adjudicators of those in
which they worked, or of the only one. The audit trail says of each study what went into it.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, TypeAlias

from django.db import migrations
from django.db.models import Count

Node: TypeAlias = tuple[str, int]
DEFAULT = "default"
WORKERS, READERS = ("annotator", "adjudicator"), ("manager", "researcher")
NODES = {
    "dataset": ("annotation", "Dataset"),
    "batch": ("annotation", "Batch"),
    "release": ("annotation", "GoldRelease"),
    "scorer": ("scoring", "Scorer"),
    "run": ("benchmark", "BenchmarkRun"),
    "judge": ("benchmark", "Judge"),
    "report": ("benchmark", "ChoiceReport"),
}
# Each: an app, a model, the fields of two nodes (``pk`` is the row itself), and which nodes they are.
TIES = [
    ("annotation", "Stratum", "batch", "batch", "dataset", "dataset"),
    ("annotation", "GoldRelease", "pk", "release", "batches", "batch"),
    ("annotation", "GoldRelease", "pk", "release", "supersedes", "release"),
    ("scoring", "Scorer", "pk", "scorer", "release", "release"),
    ("scoring", "Scorer", "pk", "scorer", "base", "scorer"),
    ("scoring", "Prediction", "scorer", "scorer", "response__prompt__dataset", "dataset"),
    ("benchmark", "BenchmarkRun", "pk", "run", "scorer", "scorer"),
    ("benchmark", "BenchmarkRun", "pk", "run", "dataset", "dataset"),
    ("benchmark", "BenchmarkRun", "pk", "run", "replaces", "run"),
    ("benchmark", "LabelPlan", "run", "run", "batch", "batch"),
    ("benchmark", "JudgeRun", "judge", "judge", "dataset", "dataset"),
    ("benchmark", "JudgeLabel", "judge", "judge", "response__prompt__dataset", "dataset"),
    ("benchmark", "ChoiceReport", "pk", "report", "dataset", "dataset"),
    ("benchmark", "ChoiceReport", "pk", "report", "scorer", "scorer"),
    ("benchmark", "ChoiceReport", "pk", "report", "judge", "judge"),
]


class Components:
    """Nodes that hang together have one root."""

    def __init__(self) -> None:
        self._above: dict[Node, Node] = {}

    def find(self, node: Node) -> Node:
        root = node
        while self._above.get(root, root) != root:
            root = self._above[root]
        while self._above.get(node, node) != node:
            self._above[node], node = root, self._above[node]
        self._above[root] = root
        return root

    def join(self, one: Node, other: Node) -> None:
        self._above[self.find(one)] = self.find(other)


class Filler:
    def __init__(self, apps: Any) -> None:
        self.apps = apps
        self.components = Components()
        self.studies: dict[Node, int] = {}
        self.contents: dict[int, Counter[str]] = defaultdict(Counter)

    def objects(self, app: str, model: str) -> Any:
        return self.apps.get_model(app, model).objects

    def fill(self) -> None:
        for kind, (app, model) in NODES.items():
            for pk in self.objects(app, model).values_list("pk", flat=True):
                self.components.find((kind, pk))
        for app, model, here, kind, there, other in TIES:
            pairs = self.objects(app, model).order_by().values_list(here, there).distinct()
            for one, two in pairs.iterator(chunk_size=2000):
                if one is not None and two is not None:
                    self.components.join((kind, one), (other, two))
        self.make_studies()
        for kind, (app, model) in NODES.items():
            self.place(app, model, "pk", kind)
        self.place("scoring", "Promotion", "scorer", "scorer")
        self.place("scoring", "RegressionCase", "response__prompt__dataset", "dataset")
        self.place("benchmark", "PublishedTable", "dataset", "dataset")
        self.place_attempts()
        self.place_templates()
        self.place_by_guideline()
        self.place_traces()
        self.add_members()
        self.report()

    def make_studies(self) -> None:
        of_root: dict[Node, list[Node]] = defaultdict(list)
        for kind, (app, model) in NODES.items():
            for pk in self.objects(app, model).order_by("pk").values_list("pk", flat=True):
                of_root[self.components.find((kind, pk))].append((kind, pk))
        datasets = self.objects("annotation", "Dataset").annotate(size=Count("prompts"))
        sizes = {pk: (size, name) for pk, name, size in datasets.values_list("pk", "name", "size")}
        taken: set[str] = set()
        for root, nodes in of_root.items():
            names = [sizes[pk] for kind, pk in nodes if kind == "dataset"]
            name = max(names, key=lambda row: (row[0], row[1]))[1] if names else f"study {nodes[0][1]}"
            if len(of_root) == 1:
                name = DEFAULT
            while name in taken:
                name = f"{name[:90]} (2)"
            taken.add(name)
            self.studies[root] = self.objects("annotation", "Study").create(name=name).pk

    def study_of(self, node: Node) -> int:
        return self.studies[self.components.find(node)]

    def place(self, app: str, model: str, field: str, kind: str) -> None:
        of_study: dict[int, list[int]] = defaultdict(list)
        for pk, key in self.objects(app, model).values_list("pk", field):
            if key is not None:
                of_study[self.study_of((kind, key))].append(pk)
        for study, keys in of_study.items():
            self.update(app, model, keys, study)

    def update(self, app: str, model: str, keys: Iterable[int], study: int) -> None:
        keys = list(keys)
        for start in range(0, len(keys), 500):
            self.objects(app, model).filter(pk__in=keys[start : start + 500]).update(study_id=study)
        self.contents[study][model] += len(keys)

    def place_attempts(self) -> None:
        """A verdict is of the scorer that its job judged."""
        of_study: dict[int, list[int]] = defaultdict(list)
        scorers = set(self.objects("scoring", "Scorer").values_list("pk", flat=True))
        for pk, payload in self.objects("scoring", "GateAttempt").values_list("pk", "job__payload"):
            if payload.get("scorer") in scorers:
                of_study[self.study_of(("scorer", payload["scorer"]))].append(pk)
        for study, keys in of_study.items():
            self.update("scoring", "GateAttempt", keys, study)

    def place_templates(self) -> None:
        """A template that judges of several studies use is copied into each."""
        judges, templates = self.objects("benchmark", "Judge"), self.objects("benchmark", "JudgeTemplate")
        users = judges.exclude(template=None).order_by("pk").values_list("template", "study").distinct()
        placed: set[int] = set()
        for pk, study in users:
            if pk not in placed:
                placed.add(pk)
                self.update("benchmark", "JudgeTemplate", [pk], study)
                continue
            template = templates.get(pk=pk)
            if template.study_id == study:
                continue
            template.pk, template.study_id = None, study
            template.save(force_insert=True)
            judges.filter(template=pk, study=study).update(template=template.pk)
            self.contents[study]["JudgeTemplate"] += 1

    def place_by_guideline(self) -> None:
        """What no row ties to a study stands where its guideline is used most, or in the first study."""
        uses: dict[str, Counter[int]] = defaultdict(Counter)
        for model in ("Batch",):
            rows = self.objects("annotation", model).order_by().values_list("guideline__name", "study")
            for name, study in rows:
                uses[name][study] += 1
        for app, model in (
            ("scoring", "GateAttempt"),
            ("scoring", "RegressionCase"),
            ("benchmark", "JudgeTemplate"),
            ("benchmark", "PublishedTable"),
        ):
            for pk, name in self.objects(app, model).filter(study=None).values_list("pk", "guideline_name"):
                study = uses[name].most_common(1)[0][0] if uses[name] else self.find_first_study()
                self.update(app, model, [pk], study)

    def place_traces(self) -> None:
        """Jobs, imports and invitations: of the only study; among several the imports by what they name, the
        invitations in the first, and no job, which is then its maker's alone.
        """
        studies = list(self.objects("annotation", "Study").order_by("pk").values_list("pk", flat=True))
        if len(studies) == 1:
            for model in ("Job", "Import", "Invitation"):
                self.objects("annotation", model).update(study_id=studies[0])
            return
        if studies:
            self.objects("annotation", "Invitation").update(study_id=studies[0])
        named = {
            field: dict(self.objects("annotation", model).values_list("name", "study"))
            for field, model in (("batch", "Batch"), ("dataset", "Dataset"))
        }
        for pk, options in self.objects("annotation", "Import").values_list("pk", "options"):
            for field, of_name in named.items():
                if options.get(field) in of_name:
                    self.update("annotation", "Import", [pk], of_name[options[field]])
                    break

    def find_first_study(self) -> int:
        study = self.objects("annotation", "Study").order_by("pk").first()
        pk: int = (study or self.objects("annotation", "Study").create(name=DEFAULT)).pk
        return pk

    def add_members(self) -> None:
        studies = list(self.objects("annotation", "Study").order_by("pk").values_list("pk", flat=True))
        people = self.objects("annotation", "Person").filter(groups__name__in=WORKERS + READERS)
        roles = list(people.order_by("pk").values_list("pk", "groups__name"))
        if roles and not studies:
            studies = [self.find_first_study()]
        worked = defaultdict(set)
        batches = self.objects("annotation", "Membership").order_by()
        for person, role, study in batches.values_list("person", "role", "batch__study").distinct():
            worked[person, role].add(study)
        model = self.apps.get_model("annotation", "StudyMembership")
        model.objects.bulk_create(
            [
                model(study_id=study, person_id=person, role=role)
                for person, role in roles
                for study in studies
                if role in READERS or len(studies) == 1 or study in worked[person, role]
            ],
            batch_size=500,
        )

    def report(self) -> None:
        studies = self.objects("annotation", "Study").order_by("pk")
        audit = self.objects("annotation", "AuditEvent")
        for study in studies:
            counts = dict(sorted(self.contents[study.pk].items()))
            counts["StudyMembership"] = (
                self.objects("annotation", "StudyMembership").filter(study=study).count()
            )
            audit.create(verb="make_study", target=f"study:{study.name}", data={"migrated": counts})
            if len(studies) > 1:
                sys.stdout.write(f"\n    study {study.name}: {counts}")


def fill(apps: Any, schema_editor: Any) -> None:
    Filler(apps).fill()


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0034_studies"),
        ("scoring", "0006_studies"),
        ("benchmark", "0008_studies"),
    ]

    operations = [migrations.RunPython(fill, elidable=True)]
