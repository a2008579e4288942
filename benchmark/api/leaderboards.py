"""Runs of a scorer over responses, and the boards that come of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.base import StrictSerializer
from annotation.api.manage.base import (
    MAKE,
    MAKE_KEY,
    READ,
    ListQuerySerializer,
    ManageView,
    NameField,
    NamesField,
    describe_part,
    list_manage_refusals,
    pick_models,
    to_answer,
)
from annotation.api.manage.jobs import find_job_url
from annotation.core.errors import N_, Conflict, NotFound
from annotation.domain.permissions import READ_BOARDS, RUN_BENCHMARK
from annotation.models import Collection, Job
from annotation.selectors.access import refuse_blind_judge
from annotation.selectors.datasets import get_dataset
from annotation.services.idempotency import MadeAnswer
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import (
    ESTIMATES,
    GROUPS,
    PAIRS,
    find_part,
    get_finished_board,
    get_run,
    list_open_collections,
    list_run_rows,
    list_runs,
    refuse_sealed_run,
)
from benchmark.services.leaderboards.runs import create_run
from scoring.selectors.gate import describe_promotion
from scoring.selectors.scorers import get_scorer_for

MAX_RUN_NAME_CHARACTERS = 150
PARTS = (GROUPS, PAIRS, ESTIMATES)


class RunSerializer(serializers.Serializer[Any]):
    """Of a run that is sealed for me, because I judge its responses blind, the name alone; the rest is null."""

    name = serializers.CharField()
    url = serializers.CharField()
    is_sealed = serializers.BooleanField()
    title = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(
        choices=Job.State.choices, allow_null=True, help_text="done: it has a board."
    )
    job = serializers.CharField(allow_null=True, help_text="The address of its job.")
    board = serializers.CharField(
        allow_null=True, help_text="The address of its board; null until it is done."
    )
    guideline = serializers.CharField(allow_null=True)
    scorer = serializers.CharField(allow_null=True)
    dataset = serializers.CharField(allow_null=True)
    collection = serializers.CharField(allow_null=True, help_text="Empty: the default one.")
    models = serializers.ListField(child=serializers.CharField(), allow_null=True)
    replaces = serializers.CharField(allow_null=True, help_text="The run that this one repeats.")
    finished_at = serializers.DateTimeField(allow_null=True)


class NewRunSerializer(StrictSerializer):
    name = NameField(max_length=MAX_RUN_NAME_CHARACTERS)
    scorer = NameField()
    dataset = NameField()
    collection = NameField(default="", allow_blank=True, help_text="Empty: the default one.")
    models = NamesField(help_text="Only these; empty: every model that has responses there.")


class BoardQuerySerializer(StrictSerializer):
    part = serializers.ListField(
        child=serializers.ChoiceField(choices=list(PARTS)),
        default=list,
        max_length=len(PARTS),
        help_text="What is wanted beside the board (may be repeated).",
    )


class BoardSerializer(serializers.Serializer[Any]):
    """What the command leaderboard prints with --json; a statistic is `{"value", "low", "high"}`, null where undefined.

    Rates are fractions, scores 0 to 100. Beside `rows` it has what the guideline's metrics need, as docs describe it.
    """

    rows = serializers.ListField(child=serializers.DictField(), help_text="A row for each model, best first.")
    gate = serializers.DictField(
        allow_null=True, help_text="How the scorer became the current one; null where it never did."
    )


RunPart = describe_part(RunSerializer, "Run")


def describe_runs(runs: Sequence[BenchmarkRun], sealed: Iterable[int] = ()) -> Iterable[dict[str, Any]]:
    """What ``RunSerializer`` describes; of those whose ids are ``sealed`` the name alone."""
    hidden = frozenset(sealed)
    for run in runs:
        is_sealed = run.pk in hidden
        is_finished = run.finished_at is not None
        unfinished = Job.State.FAILED if run.job is None else run.job.state
        body = {
            "name": run.name,
            "url": reverse("api-manage-run", args=[run.name]),
            "is_sealed": is_sealed,
        }
        facts = {
            "title": run.title,
            "state": Job.State.DONE if is_finished else unfinished,
            "job": find_job_url(run.job),
            "board": reverse("api-manage-board", args=[run.name]) if is_finished else None,
            "guideline": str(run.scorer.guideline),
            "scorer": run.scorer.name,
            "dataset": run.dataset.name,
            "collection": run.collection.name,
            "models": [] if is_sealed else sorted(model.name for model in run.evaluated_models.all()),
            "replaces": run.replaces.name if run.replaces is not None else None,
            "finished_at": run.finished_at,
        }
        yield body | (dict.fromkeys(facts) if is_sealed else facts)


def describe_run(run: BenchmarkRun) -> dict[str, Any]:
    (body,) = describe_runs([run])
    return body


def _get_collection(name: str, person: Any) -> Collection:
    """Of those that the person may hear of: a collection's name may tell the model's."""
    collection = list_open_collections(person).filter(name=name).first()
    if collection is None:
        known = ", ".join(repr(other.name) for other in list_open_collections(person)) or "-"
        raise NotFound(
            N_("There is no collection named {name}; known are: {known}."), name=repr(name), known=known
        )
    return collection


class Runs(ManageView):
    act = READ_BOARDS

    @extend_schema(
        operation_id="manage_runs",
        summary="The benchmark runs of the study, each with the address of its board",
        parameters=[ListQuerySerializer],
        responses={200: RunPart, **list_manage_refusals()},
    )
    def get(self, request: Request) -> Response:
        return self.answer_part(list_runs().defer("board", "cost"), self._describe, RunPart)

    def _describe(self, runs: Sequence[BenchmarkRun]) -> Iterable[dict[str, Any]]:
        queried = list_runs().defer("board", "cost").filter(pk__in=[run.pk for run in runs])
        rows = {row.run.pk: row for row in list_run_rows(self.person, queried)}
        listed = [rows[run.pk].run for run in runs]
        return describe_runs(listed, [pk for pk, row in rows.items() if row.sealed])


class RunState(ManageView):
    act = READ_BOARDS

    @extend_schema(
        operation_id="manage_run",
        summary="A benchmark run and how far it is",
        responses={200: RunSerializer, **READ},
    )
    def get(self, request: Request, name: str) -> Response:
        run = get_run(name)
        refuse_sealed_run(self.person, run)
        return Response(RunSerializer(describe_run(run)).data)


class StartRun(ManageView):
    act = RUN_BENCHMARK

    @extend_schema(
        operation_id="manage_run_start",
        summary="Run a scorer over the responses of some models on a dataset: a job",
        parameters=[MAKE_KEY],
        request=NewRunSerializer,
        responses={202: RunSerializer, **MAKE},
    )
    def post(self, request: Request) -> Response:
        data = self.parse(NewRunSerializer).validated_data
        # In a transaction of its own: who opened results has, also where the run is refused.
        scorer, dataset = get_scorer_for(self.person, data["scorer"]), get_dataset(data["dataset"])
        refuse_blind_judge(self.person, dataset)

        def start() -> MadeAnswer:
            run = create_run(
                name=data["name"],
                scorer=scorer,
                dataset=dataset,
                collection=_get_collection(data["collection"], self.person),
                models=pick_models(self.person, data["models"]),
                actor=self.person,
            )
            return to_answer(202, RunSerializer, describe_run(run))

        return self.make_once(start)


class Board(ManageView):
    act = READ_BOARDS

    @extend_schema(
        operation_id="manage_board",
        summary="The leaderboard of a run",
        parameters=[BoardQuerySerializer],
        responses={200: BoardSerializer, **READ},
    )
    def get(self, request: Request, name: str) -> Response:
        run = get_run(name)
        refuse_sealed_run(self.person, run)
        names = dict.fromkeys(self.read_query(BoardQuerySerializer)["part"])
        board = get_finished_board(run)
        parts = {part: find_part(run, part) for part in names}
        if None in parts.values():
            raise Conflict(
                N_("The run {name} was made before runs kept this; run it again to see it."), name=run.name
            )
        gate = describe_promotion(run.scorer, self.person)
        return Response(board | {"gate": gate} | parts)
