"""Every address of the product, asked for by everyone.

The addresses come from the resolver, so that a new one fails here until it stands in the table of who may open it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from django.contrib import admin
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import transaction
from django.template import engines
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

import benchmark.tasks  # noqa: F401 (the handlers, as a worker has them)
import scoring.tasks  # noqa: F401
from annotation.core.charts import chart_url, draw_line, make_picture, make_quantity
from annotation.core.errors import Conflict
from annotation.domain.annotations import Submission
from annotation.domain.permissions import ACTS
from annotation.domain.release_spec import ReleaseSpec
from annotation.management.commands.list_permissions import list_addresses
from annotation.models import (
    Assignment,
    Batch,
    Collection,
    CorrectionRequest,
    GuidelineNote,
    Import,
    MailProfile,
    Person,
    Response,
    SignInSession,
    StudyDeletion,
    Task,
)
from annotation.selectors.people import hash_secret
from annotation.services import jobs
from annotation.services.adjudication.disputes import record_verdict
from annotation.services.annotations.drafts import save_refused_draft
from annotation.services.annotations.messages import answer_about_item, ask_about_item
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_dispute, claim_next_task
from annotation.services.exports import Options
from annotation.services.exports.downloads import start_export
from annotation.services.gold_questions.gold_questions import GoldAnswer, add_questions
from annotation.services.guidelines import leave_note
from annotation.services.mail.contents import build_stop_token
from annotation.services.people.invitations import invite
from annotation.services.people.people import add_person, set_roles
from annotation.services.people.setup_links import make_setup_link
from annotation.services.people.tokens import make_token
from annotation.services.releases import cut_release
from annotation.services.studies import create_study
from annotation.services.studies.archive import set_study_archived
from annotation.services.studies.deletion import begin_deletion
from annotation.services.webhooks.endpoints import create_endpoint, send_test
from benchmark.models import Attempt, AttemptAnswer, ChoiceReport, Proposal, Review, RunItem
from benchmark.services.collection import start_collection
from benchmark.services.dialogues import DialogueSide, start_dialogues
from benchmark.services.judges.judges import create_judge, start_judging
from benchmark.services.leaderboards.runs import create_run, retrain
from benchmark.services.multiple_choice import create_report
from benchmark.services.published_tables import add_published
from benchmark.services.sharing import share_run
from benchmark.services.workbench.attempts import ask_targets
from benchmark.services.workbench.proposals import start_proposal
from benchmark.services.workbench.reviews import claim_review
from config.navigation import Permissions
from scoring.domain.training_spec import TrainingSpec
from scoring.services import add_must_fail, create_scorer, request_predictions
from scoring.services.predictions.requests import PredictionItem
from tests.annotation.slates import PREFERENCE_GUIDELINE, SET, give, make_slate_batch
from tests.annotation.slates import claim as claim_slate
from tests.benchmark.choice_support import put_answers, put_questions
from tests.benchmark.workbench import make_campaign, write
from tests.benchmark.workbench import submit as submit_proposal_of
from tests.conftest import ROOT
from tests.support import XSTEST_GUIDELINE, decide_next, label_next, make_batch, make_corpus

MODELS = ("Secretive-7B", "Hidden-13B")
RATIONALE = "zebra, as only one of them would write"
LANGUAGES = ("en", "zh-hans")

ALL = frozenset({"annotator", "adjudicator", "manager", "researcher", "viewer", "stranger"})
WORKERS = frozenset({"annotator", "adjudicator"})
OFFICE = frozenset({"manager", "researcher"})
READERS = frozenset({"manager", "researcher", "viewer"})
ANNOTATOR, ADJUDICATOR = frozenset({"annotator"}), frozenset({"adjudicator"})
MANAGER, RESEARCHER = frozenset({"manager"}), frozenset({"researcher"})
GROUPED = ALL - {"stranger"}
NOBODY: frozenset[str] = frozenset()
PUBLIC = {
    "healthz",
    "readyz",
    "login",
    "account_login",
    "logout",
    "set_language",
    "api-nowhere",
    "join",
    "set-up",
    "password-forgotten",
    "mail-stop",
    "shared",
    "shared-in",
    "shared-chart",
    "mfa_authenticate",
    "sign-in-passkey",
    "openid_connect_login",
    "openid_connect_callback",
    "oidc-logout",
    "saml_login",
    "saml_acs",
    "saml_finish_acs",
    "saml_sls",
    "saml_metadata",
}

BENCH_ACTS = ("join", "new", "proposal", "levels", "draft", "ask", "attempts", "near", "submit", "discard")
BENCH = ("bench", *(f"bench-{act}" for act in BENCH_ACTS))
REVIEWS = (
    "campaign-reviews",
    *(f"campaign-review{act}" for act in ("", "-next", "-judge", "-decide", "-release")),
)

IMPORTING = tuple(f"-{act}" for act in ("upload", "preview", "confirm"))
BATCHING = tuple(f"-{act}" for act in ("create", "state", "members", "join", "member"))

# Who may open what. Everybody else gets 403 or 404; whoever is not signed in is sent to sign in.
MAY: dict[str, frozenset[str]] = {
    "healthz": ALL,
    "readyz": ALL,
    "metrics": NOBODY,  # the holder of its token; without one in the settings there is none
    "login": ALL,
    "account_login": ALL,  # the same page, by the name that allauth has for it
    "logout": ALL,
    "set_language": ALL,
    "demo": NOBODY,  # only in the process that the demo command starts: tests/annotation/views/test_demo.py
    "demo-sign-in": NOBODY,
    "home": ALL,
    "account": ALL,
    "admin-own-password": ALL,  # leads to the account
    "account-name": ALL,
    "account-care": ALL,
    "account-topics": ALL,
    "account-password": ALL,
    "account-token": ALL,
    "account-token-revoke": ANNOTATOR,  # of the annotator whose token it is
    "account-links-seen": ALL,
    "account-mail": ALL,
    "account-mail-address": ALL,
    "account-mail-remove": ALL,
    "account-mail-settings": ALL,
    "account-mail-confirm": ANNOTATOR,  # of the annotator whose address waits for it
    "mail-stop": ALL,  # for whoever holds the mail
    "password-forgotten": ALL,
    **dict.fromkeys(  # of one's own; of others there is none
        [
            *("account-session-revoke", "account-sessions-revoke", "account-confirm"),
            *("second-factor", "second-factor-app", "second-factor-passkey", "second-factor-remove"),
            *("second-factor-codes", "account-provider-link", "account-provider-unlink"),
        ],
        ALL,
    ),
    "mfa_authenticate": ALL,  # whoever is signed in is led to their first page
    "sign-in-passkey": ALL,
    **dict.fromkeys(  # there is no provider here: tests/annotation/sign_in/
        [
            *("openid_connect_login", "openid_connect_callback", "oidc-logout"),
            *("saml_login", "saml_acs", "saml_finish_acs", "saml_sls", "saml_metadata"),
        ],
        ALL,
    ),
    "api-schema": ALL,
    "api-docs": ALL,
    "api-batches": ALL,
    "api-nowhere": NOBODY,
    "api-guideline": WORKERS,
    "api-next": ANNOTATOR,
    "api-next-dispute": ADJUDICATOR,
    "api-submit": ANNOTATOR,
    "api-revise": ANNOTATOR,
    "api-verdict": ADJUDICATOR,
    "api-adjudicate": ADJUDICATOR,
    "api-skip": ANNOTATOR,
    "api-release": ANNOTATOR,
    "api-extend": ANNOTATOR,
    "api-manage-studies": ALL,
    "api-manage-guidelines": GROUPED,
    "api-manage-guideline": GROUPED,
    **dict.fromkeys([f"api-manage-guideline-{act}" for act in ("load", "publish")], MANAGER),
    **dict.fromkeys(["api-manage-datasets", "api-manage-dataset"], OFFICE),
    **dict.fromkeys([f"api-manage-import{act}" for act in ("s", "", *IMPORTING)], MANAGER),
    **dict.fromkeys(["api-manage-people", "api-manage-person-add", "api-manage-person-roles"], MANAGER),
    "api-manage-member-add": MANAGER,
    **dict.fromkeys([f"api-manage-batch{act}" for act in ("es", "", *BATCHING)], MANAGER),
    "api-manage-agreement": OFFICE,
    **dict.fromkeys(["api-manage-releases", "api-manage-release"], READERS),
    "api-manage-release-cut": RESEARCHER,
    **dict.fromkeys([f"api-manage-export{act}" for act in ("s", "", "-start", "-file")], OFFICE),
    "api-manage-job": READERS,
    "api-manage-job-cancel": OFFICE,
    **dict.fromkeys(["api-manage-scorers", "api-manage-scorer"], READERS),
    **dict.fromkeys([f"api-manage-scorer-{act}" for act in ("train", "promote")], RESEARCHER),
    **dict.fromkeys(["api-manage-runs", "api-manage-run", "api-manage-board"], READERS),
    "api-manage-run-start": RESEARCHER,
    "api-predictions": OFFICE,
    "api-prediction": MANAGER,  # of the manager whose request it is
    "work": ANNOTATOR,
    "work-batch": ANNOTATOR,
    "work-introduction": ANNOTATOR,
    "work-ahead": ANNOTATOR,
    "work-undo": ANNOTATOR,
    "work-submit": ANNOTATOR,
    "work-draft": ANNOTATOR,
    "work-skip": ANNOTATOR,
    "work-extend": ANNOTATOR,
    "work-release": ANNOTATOR,
    "item-differences": ANNOTATOR,  # of the annotator whose item it is
    "disputes": ADJUDICATOR,
    "dispute-batch": ADJUDICATOR,
    "dispute-introduction": ADJUDICATOR,
    "dispute-verdict": ADJUDICATOR,
    "dispute-submit": ADJUDICATOR,
    "dispute-skip": ADJUDICATOR,
    "dispute-release": ADJUDICATOR,
    "history": WORKERS,
    "my-work": WORKERS,
    "history-item": ANNOTATOR,  # of the annotator whose item it is
    "history-revise": ANNOTATOR,
    "draft-retry": ANNOTATOR,  # of the annotator whose draft it is
    "draft-discard": ANNOTATOR,
    "batches": MANAGER,
    "batch-dataset": MANAGER,
    "study-plan": MANAGER,
    "batch-new": MANAGER,
    "batch-plan": MANAGER,
    "batch-making": MANAGER,
    "batch": MANAGER,
    "batch-progress": MANAGER,
    "batch-state": MANAGER,
    "batch-close": MANAGER,
    "batch-confirm-closing": MANAGER,
    "batch-end-collection": MANAGER,
    "batch-policy": MANAGER,
    "batch-alarm-seen": MANAGER,
    "batch-members": MANAGER,
    "batch-member": MANAGER,
    "batch-member-limits": MANAGER,
    "batch-tasks": MANAGER,
    "batch-needs": MANAGER,
    "batch-needs-notice": MANAGER,
    "batch-items": MANAGER,
    "batch-known": MANAGER,
    "batch-known-item": MANAGER,
    "batch-rounds": MANAGER,
    "batch-round": MANAGER,
    "correction-handled": MANAGER,
    "work-messages": ANNOTATOR,  # of the annotator whose item it is
    "own-messages": WORKERS,
    "batch-messages": MANAGER,
    "batch-answer": MANAGER,
    "imports": MANAGER,
    "import-new": MANAGER,
    "import-report": MANAGER,
    "import-template": MANAGER,
    "import-check": MANAGER,
    "import-confirm": MANAGER,
    "import-discard": MANAGER,
    "guidelines": GROUPED,
    "guideline": GROUPED,
    "guideline-new": MANAGER,
    "labelling-end": OFFICE,
    "audit": MANAGER,
    "audit-file": MANAGER,
    "hours": MANAGER,
    "hours-file": MANAGER,
    "guideline-preview": MANAGER,
    "guideline-shipped": MANAGER,
    "guideline-publish": MANAGER,
    "guideline-compare": GROUPED,
    "guideline-notes": MANAGER,
    "note-resolve": MANAGER,
    "dispute-reasons": MANAGER,
    "dispute-reason": MANAGER,
    "dispute-reason-move": MANAGER,
    "dispute-reason-active": MANAGER,
    "pipeline": OFFICE,
    "datasets": OFFICE,
    "dataset": OFFICE,
    "dataset-sharing": MANAGER,
    "dataset-slates": MANAGER,
    "release-sharing": MANAGER,
    "scorer-sharing": MANAGER,
    "dataset-archive": MANAGER,
    "dataset-title": MANAGER,
    "dataset-delete": MANAGER,
    "batch-archive": MANAGER,
    "batch-title": MANAGER,
    "release-archive": RESEARCHER,
    "release-title": RESEARCHER,
    "scorer-archive": RESEARCHER,
    "scorer-title": RESEARCHER,
    "run-archive": RESEARCHER,
    "run-title": RESEARCHER,
    "studies": ALL,
    "study-new": NOBODY,  # an admin's, as are the next ones
    "operations": NOBODY,
    "operations-live": NOBODY,
    "operations-webhooks": NOBODY,
    "operations-job": NOBODY,
    "operations-job-retry": NOBODY,
    "operations-job-cancel": NOBODY,
    **dict.fromkeys(
        [
            "webhooks",
            *(f"webhook{page}" for page in ("", "-secret", "-active", "-test", "-again", "-message")),
        ],
        MANAGER,
    ),
    "study-title": MANAGER,
    "people": MANAGER,
    "person": MANAGER,
    "person-new": MANAGER,
    "person-add": MANAGER,
    "person-leaving": MANAGER,
    "person-erasure": NOBODY,
    "study-archive": NOBODY,
    "study-deletion": NOBODY,
    "study-certificates": NOBODY,
    "study-certificate": NOBODY,
    "study-certificate-file": NOBODY,
    "invitations": MANAGER,
    "invitation-resend": MANAGER,
    "invitation-revoke": MANAGER,
    "set-up": ALL,  # for whom the link is; who is somebody else is told so
    "join": ALL,  # for people without an account; who has one is told so
    "person-roles": MANAGER,
    "person-name": MANAGER,
    "person-languages": MANAGER,
    "person-models": MANAGER,
    "person-link": MANAGER,
    "person-link-revoke": MANAGER,
    "person-token-revoke": MANAGER,
    **dict.fromkeys(
        [
            *("person-session-revoke", "person-sessions-revoke", "person-factors-reset"),
            *("person-provider-link", "person-provider-unlink"),
        ],
        NOBODY,
    ),
    "person-active": MANAGER,
    "person-exposure": MANAGER,
    "quality": MANAGER,
    "batch-quality": MANAGER,
    "batch-quality-person": MANAGER,
    "batch-quality-items": MANAGER,
    "care": MANAGER,
    "agreement": OFFICE,
    "agreement-tasks": OFFICE,
    "report": OFFICE,
    "chart": GROUPED,
    "task": OFFICE,
    "releases": READERS,
    "release": READERS,
    "release-labels": READERS,
    "release-download": READERS,
    "release-exports": OFFICE,
    "release-export": OFFICE,
    "export-file": OFFICE,
    "export-zip": OFFICE,
    "export-discard": OFFICE,
    "release-new": RESEARCHER,
    "release-making": RESEARCHER,
    "release-conflicts": RESEARCHER,
    "release-conflicts-file": RESEARCHER,
    "release-datasheet": READERS,
    "release-compare": READERS,
    "release-changes": READERS,
    "job-progress": READERS,
    "job-cancel": OFFICE,
    "scorers": READERS,
    "scorer": READERS,
    "scorer-new": RESEARCHER,
    "scorer-promote": RESEARCHER,
    "scorer-reason": RESEARCHER,
    "scorer-back": RESEARCHER,
    "scorer-drift": RESEARCHER,
    "scorer-export": OFFICE,
    "scorer-score": RESEARCHER,
    "scorer-abstained": OFFICE,
    "must-fail": READERS,
    "must-fail-add": RESEARCHER,
    "must-fail-import": RESEARCHER,
    "must-fail-remove": RESEARCHER,
    "runs": READERS,
    "run": READERS,
    "run-cell": READERS,
    "run-export": READERS,
    "run-item": READERS,
    "new-run": RESEARCHER,
    "label-next": OFFICE,
    "label-next-batch": RESEARCHER,
    "run-again": RESEARCHER,
    "run-sensitivity": OFFICE,
    "run-links": OFFICE,
    "run-share": RESEARCHER,
    "run-link-revoke": RESEARCHER,
    "shared": ALL - WORKERS,  # who judges behind the run blind is refused while signed in
    "shared-in": ALL - WORKERS,
    "shared-chart": ALL - WORKERS,
    "published-tables": READERS,
    "published-new": RESEARCHER,
    "published-table": READERS,
    "published-remove": RESEARCHER,
    "published-dataset": RESEARCHER,
    "published-archive": RESEARCHER,
    "published-title": RESEARCHER,
    "campaigns": ALL - {"viewer", "stranger"},
    "campaign-new": MANAGER,
    "campaign": OFFICE,
    "campaign-proposals": OFFICE,
    "campaign-proposal": OFFICE,
    "campaign-export": OFFICE,
    **dict.fromkeys(
        [f"campaign-{page}" for page in ("settings", "state", "members", "member-remove", "quota", "batch")],
        MANAGER,
    ),
    "attack-methods": MANAGER,
    "attack-method-save": MANAGER,
    **dict.fromkeys(BENCH, ANNOTATOR),  # of the author whose proposal it is
    **dict.fromkeys(REVIEWS, ADJUDICATOR),  # of the reviewer whose review it is
    "dialogue-runs": OFFICE,
    "dialogue-run-new": RESEARCHER,
    "dialogue-run": OFFICE,
    "dialogue-progress": OFFICE,
    "dialogue-again": RESEARCHER,
    "dialogue": OFFICE,
    "dialogue-turns": OFFICE,
    "collecting": OFFICE,
    "collecting-new": RESEARCHER,
    "collecting-run": OFFICE,
    "collecting-progress": OFFICE,
    "collecting-again": RESEARCHER,
    "retrain": RESEARCHER,
    "retraining": READERS,
    "judges": OFFICE,
    "judge": OFFICE,
    "judge-new": RESEARCHER,
    "judge-ask": RESEARCHER,
    "judge-ask-on": RESEARCHER,
    "judge-archive": RESEARCHER,
    "judge-title": RESEARCHER,
    "judge-template": OFFICE,
    "judge-template-save": RESEARCHER,
    "judge-comparison": OFFICE,
    "judge-correlations": OFFICE,
    "board-matrix": READERS,
    "preference-boards": READERS,
    "preference-board": READERS,
    "choice-reports": READERS,
    "choice-report-new": RESEARCHER,
    "choice-report": READERS,
    "choice-report-model": READERS,
    "choice-comparison": READERS,
    "choice-report-batch": RESEARCHER,
    "choice-report-archive": RESEARCHER,
    "choice-report-title": RESEARCHER,
    "choice-report-export": READERS,
}
# The roles may do the act; of the world's items only their owner is given these.
OF_ITS_OWNER = {
    "history-item",
    "history-revise",
    "draft-retry",
    "draft-discard",
    "work-messages",
    "api-prediction",
    "work-extend",
    "item-differences",
    "account-mail-confirm",
    *BENCH,
    *REVIEWS,
} | {f"api-{act}" for act in ("revise", "skip", "release", "extend")}
# What the API takes; pages get an empty form, which is refused by who may not send any.
WORK = {"labels": {"compliance": 3}}
BODIES = {
    "submit": WORK,
    "revise": WORK,
    "verdict": WORK,
    "adjudicate": {**WORK, "reason": "reading_slip"},
    "skip": {"reason": "I know the author"},
    "predictions": {"scorer": "s1", "items": [{"prompt": "Is it?", "response": "It is."}]},
}
QUERIES = {
    "run-cell": f"?model={MODELS[0]}",
    "choice-report-model": "?model=Chooses-7B",
    "item-differences": "?first=1&second=2",
}
ANSWERED = {200, 201, 202, 204, 302, 400, 409, 415, 422}


@dataclass(frozen=True)
class World:
    people: dict[str, Person]
    batch: Batch
    claimed: UUID
    submitted: UUID
    disputed: UUID
    values: dict[str, Any]
    """What stands in an address: by ``URL name.parameter``, else by ``parameter``."""
    slate_paths: list[str]
    """Addresses of a batch of slates, for those who work in it."""

    def path(self, name: str, parameters: list[str]) -> str:
        return reverse(
            name, kwargs={p: self.values.get(f"{name}.{p}", self.values.get(p)) for p in parameters}
        )


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Refusals are what is asked for here; a page of them would hide what went wrong."""
    caplog.set_level("CRITICAL", "django.request")


@pytest.fixture
def world(db: None) -> World:
    """A batch in the middle of its work, with a release, a scorer, a run and a retraining behind it."""
    return make_world()


def delete_empty_study() -> StudyDeletion:
    study = create_study(name="gone")
    set_study_archived(study=study, archived=True)
    deletion = begin_deletion(study=study, send=False)
    assert deletion.job is not None
    jobs.run_now(deletion.job)
    return deletion


def make_world() -> World:
    roles = {
        "annotator": "lin",
        "adjudicator": "wu",
        "manager": "ma",
        "researcher": "he",
        "viewer": "vera",
    }
    people = {role: add_person(name=name, roles=[role]) for role, name in roles.items()}
    people["stranger"] = add_person(name="stranger")
    lin, wu = people["annotator"], people["adjudicator"]
    chen = add_person(name="chen", roles=["annotator"], display_name="Xiao Chen")
    guideline = XSTEST_GUIDELINE.load()
    corpus = make_corpus(prompts=12, models=MODELS)
    batch = make_batch(guideline, corpus, annotators=[lin, chen], adjudicators=[wu])
    for number in range(20):
        label_next(batch, lin, 1 + 2 * (number % 2))
    first = batch.tasks.order_by("position")[0].assignments.get(person=lin)
    for number in range(19):
        item = claim_next_task(batch=batch, person=chen)
        assert item is not None
        work = Submission({"compliance": 2 if number % 9 == 8 else 1 + 2 * (number % 2)}, rationale=RATIONALE)
        submit(assignment_id=item.pk, person=chen, key="k", work=work)
    decide_next(batch, wu, 2)
    make_corpus(prompts=2, models=MODELS[:1], name="known")
    known = Response.objects.filter(prompt__dataset__name="known")
    answers = [GoldAnswer(item.pk, {"compliance": 3}, RATIONALE) for item in known]
    items = add_questions(batch=batch, kind="check", items=answers)
    held, dispute = claim_next_task(batch=batch, person=lin), claim_next_dispute(batch=batch, person=wu)
    assert held is not None
    assert dispute is not None
    save_refused_draft(held.pk, Submission({"compliance": 2}), Conflict("Somebody else has it."))
    revise(
        assignment_id=first.pk, person=lin, key="again", work=Submission({"compliance": 2}, reason="sorry")
    )
    release = cut_release(ReleaseSpec(name="r1", batches=[batch]))
    export = start_export(
        release=release, format_name="jsonl", options=Options(), actor=people["manager"], send=False
    )
    assert export.job is not None
    jobs.run_now(export.job)
    scorer, training = create_scorer(TrainingSpec(name="s1", release=release), send=False)
    jobs.run_now(training)
    scorer.refresh_from_db()
    prediction_request = request_predictions(
        scorer=scorer, items=[PredictionItem("Is it?", "It is.")], actor=people["manager"], send=False
    )
    jobs.run_now(prediction_request.job)
    answered = batch.tasks.order_by("position")[0].response
    (receipt,) = add_must_fail(guideline_name=guideline.name, response=answered, refused=[3])
    collection = answered.collection
    run = create_run(name="b1", scorer=scorer, dataset=corpus, collection=collection, send=False)
    assert run.job is not None
    jobs.run_now(run.job)
    run.refresh_from_db()
    link, token = share_run(run=run, actor=people["researcher"])
    shared = Client().get(reverse("shared", args=[token])).content.decode()
    proof, shared_key = re.findall(r"/charts/([^/]+)/([0-9a-f]{64})\.svg", shared)[0]
    numbers = {
        "model": MODELS[0],
        "dimensions": {"safe": {"full_compliance_rate": 0.9}},
        "overall": {},
        "n": {},
    }
    table = add_published(
        guideline=guideline, dataset=run.dataset, name="Published", source="A paper", rows=[numbers]
    )
    gathering = start_collection(
        model="Asked-7B",
        dataset=make_corpus(prompts=2, models=(), name="asked"),
        endpoint="http://127.0.0.1:9/v1",
        send=False,
    )
    assert gathering.job is not None
    jobs.cancel(job=gathering.job)
    dialogues = start_dialogues(
        name="d1",
        dataset=gathering.dataset,
        model=DialogueSide("Asked-7B", "http://127.0.0.1:9/v1"),
        agent=DialogueSide("ESC-Role", "http://127.0.0.1:9/v1"),
        collection="dialogues",
        send=False,
    )
    assert dialogues.job is not None
    jobs.cancel(job=dialogues.job)
    draft, attempt, review = work_on_campaign(lin, wu)
    retraining = retrain(release=release, send=False)
    judge = create_judge(
        name="j1", guideline=guideline, endpoint="http://127.0.0.1:9/v1", served_model="m", settings={}
    )
    judging = start_judging(judge=judge, dataset=corpus, collection=collection, send=False)
    choices = make_choice_report()
    making = jobs.enqueue(kind="batch", payload={"dataset": corpus.pk}, title="second", send=False)
    cutting = jobs.enqueue(kind="release", payload={"batches": []}, title="r2", send=False)
    _setup, setup_secret = make_setup_link(person=people["stranger"], actor=people["manager"])
    withdrawn, _secret = make_setup_link(person=chen, actor=people["manager"])
    own, _text = make_token(person=lin, name="mine", scope="work", days=1, actor=lin)
    other, _text = make_token(person=chen, name="theirs", scope="work", days=1, actor=chen)
    invitation, secret = invite(roles=["annotator"], days=7, actor=people["manager"])
    webhook, _webhook_secret = create_endpoint(
        study=batch.study,
        url="https://receiver.example/",
        events=["batch.closed"],
        base_url="https://assay.example",
        actor=people["manager"],
    )
    message = send_test(endpoint=webhook)
    MailProfile.objects.create(
        person=lin,
        language="en",
        pending_address="lin@example.org",
        pending_sha256=hash_secret("of-a-mail"),
        pending_until=timezone.now() + timedelta(days=1),
    )
    discussed = batch.tasks.order_by("position")[1].assignments.get(person=chen)
    ask_about_item(assignment=discussed, author=chen, text="Does a warning count?")
    answer_about_item(
        assignment=discussed,
        author=people["manager"],
        text="It does not.",
        criterion="compliance",
        for_everybody=True,
    )
    note = leave_note(
        guideline=guideline, source=GuidelineNote.Source.FLAG, author=chen, text="Where does it end?"
    )
    upload = Import.objects.create(kind="prompts", format="jsonl", file_name="prompts.jsonl")
    slate_items = work_on_slates(lin, chen, wu)
    gone = delete_empty_study()
    session = SignInSession.objects.create(
        person=chen, session_key="k" * 32, began_at=timezone.now(), seen_at=timezone.now()
    )
    return World(
        people=people,
        batch=batch,
        claimed=held.pk,
        submitted=first.pk,
        disputed=dispute.pk,
        slate_paths=list_slate_paths(*slate_items),
        values={
            "name": "first",
            "username": "chen",
            "role": "annotator",
            "dataset": "small",
            "version": guideline.version,
            "guideline.name": guideline.name,
            "dataset.name": "small",
            "dataset-sharing.name": "small",
            "dataset-slates.name": "small",
            "release-sharing.name": "r1",
            "scorer-sharing.name": "s1",
            "dataset-archive.name": "small",
            "dataset-title.name": "small",
            "dataset-delete.name": "small",
            "release-archive.name": "r1",
            "release-title.name": "r1",
            "scorer-archive.name": "s1",
            "scorer-title.name": "s1",
            "run-archive.name": "b1",
            "run-title.name": "b1",
            "guideline-publish.name": guideline.name,
            "guideline-shipped.name": "fine",
            "guideline-compare.name": guideline.name,
            "guideline-notes.name": guideline.name,
            "note_id": note.pk,
            "release.name": "r1",
            "release-labels.name": "r1",
            "release-download.name": "r1",
            "release-datasheet.name": "r1",
            "release-compare.name": "r1",
            "release-changes.name": "r1",
            "release-exports.name": "r1",
            "release-export.name": "r1",
            "export-file.name": "r1",
            "export-zip.name": "r1",
            "export-discard.name": "r1",
            "export_id": export.pk,
            "file": "gold.jsonl",
            "kind": "jsonl",
            "release": "r1",
            "scorer.name": "s1",
            "scorer-promote.name": "s1",
            "scorer-reason.name": "s1",
            "scorer-back.name": "s1",
            "scorer-drift.name": "s1",
            "scorer-export.name": "s1",
            "scorer-score.name": "s1",
            "scorer-abstained.name": "s1",
            "guideline": guideline.name,
            "must-fail-remove.item_id": receipt.pk,
            "judge.name": "j1",
            "judge-ask.name": "j1",
            "judge-archive.name": "j1",
            "judge-title.name": "j1",
            "judging_id": judging.pk,
            "judge-template.name": guideline.name,
            "judge-template-save.name": guideline.name,
            "judge-comparison.name": "r1",
            "judge-correlations.name": "r1",
            "preference-board.name": "r1",
            "run.name": "b1",
            "run-cell.name": "b1",
            "run-export.name": "b1",
            "label-next.name": "b1",
            "label-next-batch.name": "b1",
            "run-item.name": "b1",
            "item_id": RunItem.objects.filter(run=run)[0].pk,
            **{f"{name}.name": "b1" for name in ("run-again", "run-links", "run-share", "run-link-revoke")},
            "run-sensitivity.name": "b1",
            **{
                f"choice-report{page}.name": choices.name
                for page in ("", "-model", "-batch", "-export", "-archive", "-title")
            },
            "choice-comparison.name": choices.name,
            "choice-report-export.kind": "json",
            "link_id": link.pk,
            "token": token,
            "shared-in.language": "zh-hans",
            "proof": proof,
            "shared-chart.key": shared_key,
            "table_id": table.pk,
            **{f"study-{page}.name": batch.study.name for page in ("archive", "deletion")},
            **{f"study-certificate{part}.number": gone.pk for part in ("", "-file")},
            **{
                f"{page}.number": dialogues.pk
                for page in (
                    "dialogue-run",
                    "dialogue-progress",
                    "dialogue-again",
                    "dialogue",
                    "dialogue-turns",
                )
            },
            **{
                f"{page}.prompt": gathering.dataset.prompts.all()[0].pk
                for page in ("dialogue", "dialogue-turns")
            },
            **{f"collecting-{page}.number": gathering.pk for page in ("run", "progress", "again")},
            **{f"{page}.name": "attacks" for page in MAY if page.startswith(("campaign", "bench"))},
            "campaign-export.kind": "jsonl",
            "proposal_id": draft.pk,
            "campaign-proposal.proposal_id": review.revision.proposal_id,
            "attempt_id": attempt.pk,
            "review_id": review.pk,
            "retraining_id": getattr(retraining, "pk", None),
            "request_id": CorrectionRequest.objects.get().pk,
            "api-prediction.request_id": prediction_request.pk,
            **{f"api-manage-guideline{act}.name": "xstest" for act in ("", "-publish")},
            "api-manage-dataset.name": "small",
            **{f"api-manage-{page}.name": "r1" for page in ("release", "exports", "export-start")},
            **{f"api-manage-export{page}.name": "r1" for page in ("", "-file")},
            **{f"api-manage-scorer{page}.name": "s1" for page in ("", "-promote")},
            **{f"api-manage-{page}.name": "b1" for page in ("run", "board")},
            "import_id": upload.pk,
            "import-template.kind": "prompts",
            "ending": "csv",
            "job_id": training.pk,
            "batch-making.job_id": making.pk,
            "release-making.job_id": cutting.pk,
            "batch-known-item.item_id": items[0].pk,
            "pk": batch.tasks.filter(state=Task.State.AGREED)[0].pk,
            "key": chart_key(),
            "dispute-reason.key": "reading_slip",
            "dispute-reason-move.key": "reading_slip",
            "dispute-reason-active.key": "reading_slip",
            "invitation_id": invitation.pk,
            "endpoint_id": webhook.pk,
            "delivery_id": message.pk,
            "secret": secret,
            "set-up.secret": setup_secret,
            "account-mail-confirm.secret": "of-a-mail",
            "mail-stop.token": build_stop_token(people["stranger"], "digest"),
            "person-link-revoke.link_id": withdrawn.pk,
            "account-token-revoke.token_id": own.pk,
            "person-token-revoke.token_id": other.pk,
            "session_id": session.pk,
            "factor_id": 1,
            "account_id": 1,
            "provider_id": "company",
            "organization_slug": "company",
            "account-provider-link.name": "company",
            "assignment_id": held.pk,
            "item-differences.assignment_id": slate_items[0].pk,
            "history-item.assignment_id": first.pk,
            "batch-answer.assignment_id": discussed.pk,
            "history-revise.assignment_id": first.pk,
            "api-revise.assignment_id": first.pk,
            "api-verdict.assignment_id": dispute.pk,
            "api-adjudicate.assignment_id": dispute.pk,
            "dispute-verdict.assignment_id": dispute.pk,
            "dispute-submit.assignment_id": dispute.pk,
            "dispute-skip.assignment_id": dispute.pk,
            "dispute-release.assignment_id": dispute.pk,
        },
    )


def work_on_slates(lin: Person, chen: Person, wu: Person) -> tuple[Assignment, Assignment, Assignment]:
    """What lin has of a batch of slates, what lin submitted, and what wu decides, after a verdict."""
    batch = make_slate_batch(
        PREFERENCE_GUIDELINE.load(),
        annotators=[lin, chen],
        adjudicators=[wu],
        prompts=3,
        models=MODELS,
        name="slates",
    )
    submitted = claim_slate(batch, lin)
    give(submitted, {"best": 1})
    spans = [{"turn": 0, "start": 0, "end": 6, "criterion": "best", "level": 2}]
    give(claim_slate(batch, chen), {"best": 2}, rationale=RATIONALE, evidence=spans)
    dispute = claim_next_dispute(batch=batch, person=wu)
    assert dispute is not None
    record_verdict(assignment_id=dispute.pk, person=wu, work=Submission({"best": -1}))
    return claim_slate(batch, lin), submitted, dispute


def work_on_campaign(lin: Person, wu: Person) -> tuple[Proposal, Attempt, Review]:
    """Of a blind campaign: a draft of lin's, what a target answered to it, and wu's review of another one of lin's."""
    campaign = make_campaign(
        targets=dict.fromkeys(MODELS, "http://127.0.0.1:9/v1"), is_blind=True, authors=[lin], reviewers=[wu]
    )
    submit_proposal_of(campaign, lin, "Write a game in which each fault of a classmate scores.")
    review = claim_review(campaign=campaign, person=wu)
    assert review is not None
    draft = start_proposal(campaign=campaign, person=lin)
    text = write("Write a game in which the shyest guest loses.")
    (attempt,) = ask_targets(proposal_id=draft.pk, person=lin, text=text, places=[1], send=False)
    assert attempt.job is not None
    jobs.cancel(job=attempt.job)
    Attempt.objects.filter(pk=attempt.pk).update(state=Attempt.State.ANSWERED)
    AttemptAnswer.objects.create(
        attempt=attempt,
        text="Gladly.",
        served_model=MODELS[0],
        seconds=1,
        attempts=1,
        answered_at=timezone.now(),
    )
    return draft, attempt, review


def list_slate_paths(held: Assignment, submitted: Assignment, dispute: Assignment) -> list[str]:
    by_batch = ("work-batch", "work-ahead", "work-undo", "dispute-batch", "api-next", "api-next-dispute")
    pages = [reverse(name, args=["slates"]) for name in (*by_batch, "api-guideline")]
    items = [reverse("history-item", args=[submitted.pk])]
    for assignment in (held, dispute):
        items += [
            reverse("item-differences", args=[assignment.pk]) + QUERIES["item-differences"],
            *(
                reverse(name, args=[assignment.pk])
                for name in ("work-messages", "work-submit", "dispute-submit")
            ),
        ]
    return [*pages, *items]


def make_choice_report() -> ChoiceReport:
    """Of one model that always answers with the same letter; its open answer is not settled yet."""
    with TemporaryDirectory() as folder:
        questions = put_questions(Path(folder), ["Privacy"], dataset="chosen")
    put_answers(questions, "Chooses-7B", lambda form: "A" if form.form == "choice" else "No.")
    return create_report(
        name="fine-1", kind="fine", dataset=questions, collection=Collection.objects.get(name="")
    )


def chart_key() -> str:
    line = draw_line(make_quantity("at", None), make_quantity("loss", None))
    url = chart_url(make_picture([line], [{"at": 1, "loss": 2}]))
    return Path(url).stem


def addresses(resolver: URLResolver | None = None) -> Iterator[tuple[str, list[str]]]:
    """Every name in the resolver with its parameters, but for the admin's own."""
    for pattern in (resolver or get_resolver()).url_patterns:
        if isinstance(pattern, URLPattern):
            yield str(pattern.name), list(pattern.pattern.converters)
        elif pattern.app_name != "admin":
            yield from addresses(pattern)


ADDRESSES = sorted(addresses())


def paths(world: World) -> Iterator[tuple[str, str]]:
    for name, parameters in ADDRESSES:
        yield name, world.path(name, parameters)


def test_every_address_stands_in_the_table():
    assert {name for name, _parameters in ADDRESSES} == set(MAY)


def test_the_table_agrees_with_the_acts_that_guard_the_addresses():
    """The table above was written by hand. An address of which only its owner's items are given names fewer roles."""
    acts = {address.name: address.act for address in list_addresses() if address.act}
    assert len(acts) > 150
    for name, act in acts.items():
        roles = frozenset(ACTS[act].roles)
        assert MAY[name] == roles or (name in OF_ITS_OWNER and roles > MAY[name]), name


def test_the_documents_have_the_generated_table():
    output = StringIO()
    call_command("list_permissions", stdout=output)
    assert output.getvalue().strip() in (ROOT / "docs" / "permissions.md").read_text("utf-8")


def test_a_template_that_misspells_an_act_is_refused():
    with pytest.raises(ImproperlyConfigured, match="cut_relase"):
        engines["django"].from_string("{% if may.cut_relase %}{% endif %}").render({"may": Permissions(None)})


def client_of(person: Person | None) -> Client:
    client = Client()
    if person is not None:
        client.force_login(person)
    return client


def test_no_link_leads_a_viewer_to_a_refusal(world: World):
    """What a viewer cannot open is not offered to them, in a link or a form."""
    client = client_of(world.people["viewer"])
    waiting = deque(reverse(name) for name in ("home", "releases", "scorers", "runs", "published-tables"))
    seen_on = dict.fromkeys(waiting, "the bar")
    seen: dict[str, int] = {}
    while waiting:
        path = waiting.popleft()
        if path in seen or path == reverse("logout"):
            continue
        answer = client.get(path)
        seen[path] = answer.status_code
        if answer.status_code == 200 and "html" in answer.headers.get("Content-Type", ""):
            for link in links(answer.content.decode("utf-8", "replace"), path):
                seen_on.setdefault(link, path)
                waiting.append(link)
    assert len(seen) > 50
    refused = [f"{status} {path} on {seen_on[path]}" for path, status in seen.items() if status >= 400]
    assert not refused, "\n".join(refused)


def ask(client: Client, path: str, **headers: str) -> list[Any]:
    """GET and a POST; what a POST changes is taken back."""
    answers = [client.get(path, headers=headers)]
    body = BODIES.get(path.rstrip("/").rpartition("/")[2], {}) if path.startswith("/api/") else {}
    with transaction.atomic():
        answers.append(
            client.post(path, body, content_type=kind(path), headers={"Idempotency-Key": "k", **headers})
        )
        transaction.set_rollback(True)
    return answers


def kind(path: str) -> str:
    return "application/json" if path.startswith("/api/") else "application/x-www-form-urlencoded"


def test_an_admin_meets_no_broken_page(world: World):
    client = client_of(Person.objects.create_superuser("root"))
    answers = {path: [a.status_code for a in ask(client, path)] for _name, path in paths(world)}
    assert {path: statuses for path, statuses in answers.items() if max(statuses) >= 500} == {}


def test_djangos_admin_is_for_admins_alone_and_holds_no_results(world: World):
    pages = [
        "admin:index",
        *(f"admin:{m._meta.app_label}_{m._meta.model_name}_changelist" for m in admin.site._registry),
    ]
    superuser = client_of(Person.objects.create_superuser("root"))
    for page in map(reverse, pages):
        answer = superuser.get(page)
        assert answer.status_code == 200
        assert b"Secretive" not in answer.content
        for person in world.people.values():
            refused = client_of(person).get(page)
            assert (refused.status_code, refused.headers["Location"][:13]) == (302, "/admin/login/")
    assert {model._meta.model_name for model in admin.site._registry} == {
        "person",
        "group",
    }


# Blindness.


def links(content: str, base: str) -> Iterator[str]:
    for link in re.findall(r'(?:href|src|hx-get|action)="([^"#]+)"', content):
        parts = urlsplit(link.replace("&amp;", "&"))
        if parts.scheme or parts.netloc or parts.path.startswith("/static/") or "sign-out" in link:
            continue
        yield (parts.path or base.partition("?")[0]) + (f"?{parts.query}" if parts.query else "")


def everything_seen_by(client: Client, world: World, language: str) -> Iterator[tuple[str, str]]:
    """All that the person can reach: every address of the table, and every link on what they see."""
    headers = {"Accept-Language": language}
    waiting = deque([*(path for _name, path in paths(world)), *world.slate_paths])
    seen: set[str] = set()
    while waiting and len(seen) < 400:
        path = waiting.popleft()
        if path in seen or path == reverse("logout"):
            continue
        seen.add(path)
        for answer in ask(client, path, **headers):
            content = b"".join(answer) if answer.streaming else answer.content
            text = content.decode("utf-8", "replace")
            yield path, f"{answer.headers}\n{text}"
            if answer.status_code == 200 and "html" in answer.headers.get("Content-Type", ""):
                waiting.extend(links(text, path))


def leaks(
    world: World, role: str, secrets: list[str], languages: tuple[str, ...] = LANGUAGES
) -> list[tuple[str, list[str]]]:
    """Where a secret reaches the person, in any language. What they wrote into an address themselves is none."""
    found_secrets = []
    for language in languages:
        for path, text in everything_seen_by(client_of(world.people[role]), world, language):
            leaked = [
                secret for secret in secrets if re.search(secret, text.replace(path, ""), re.IGNORECASE)
            ]
            found_secrets += [(path, leaked)] if leaked else []
    return found_secrets


def test_nothing_that_reaches_an_annotator_tells_model_partner_label_or_prediction(world: World):
    secrets = [*MODELS, SET, r"\bchen\b", "Xiao Chen", r"\bwu\b", "zebra", "predict", "预测", "probabilit"]
    assert leaks(world, "annotator", secrets) == []


def test_an_adjudicator_sees_sides_and_never_whose_they_are(world: World):
    secrets = [*MODELS, SET, r"\bchen\b", "Xiao Chen", r"\blin\b", "predict", "预测"]
    assert leaks(world, "adjudicator", secrets) == []


def test_who_annotates_is_blind_whatever_else_they_are(world: World):
    lin = world.people["annotator"]
    set_roles(person=lin, roles=["annotator", "manager", "researcher", "adjudicator"])
    Person.objects.filter(pk=lin.pk).update(is_superuser=True, is_staff=True)
    lin.refresh_from_db()
    # Some hundred pages, of which another language changes the words alone.
    assert leaks(world, "annotator", [*MODELS, SET, "zebra"], LANGUAGES[:1]) == []


def test_those_who_judge_slates_are_shown_them(world: World):
    """What is searched above for secrets holds the responses, and the labels of both where they are decided."""
    annotator, adjudicator = (client_of(world.people[role]) for role in ("annotator", "adjudicator"))
    answers = {path: [a.status_code for a in ask(annotator, path)] for path in world.slate_paths}
    assert sum(200 in statuses for statuses in answers.values()) >= 6, answers
    assert "Answer 1 to question" in annotator.get("/work/slates/").content.decode()
    assert RATIONALE in adjudicator.get("/disputes/slates/").content.decode()


def test_what_differs_in_an_item_is_for_its_person_alone(world: World):
    held, dispute = (path for path in world.slate_paths if "/differences/" in path)
    roles = {"annotator": (200, 404), "adjudicator": (404, 200)}
    for role, person in world.people.items():
        expected = roles.get(role, (403, 403))
        answers = [client_of(person).get(path) for path in (held, dispute)]
        assert tuple(answer.status_code for answer in answers) == expected, role
    assert client_of(None).get(held).status_code == 302
    annotator = client_of(world.people["annotator"])
    spans = annotator.get(held).json()["spans"]
    assert spans
    assert all(set(span) == {"turn", "start", "end"} for span in spans)
    for query in ("", "?first=1", "?first=1&second=3", "?first=0&second=1", "?first=x&second=" + "9" * 50):
        assert annotator.get(held.partition("?")[0] + query).status_code == 404, query
    plain = reverse("item-differences", args=[world.claimed])
    assert annotator.get(plain + QUERIES["item-differences"]).status_code == 404
    assert annotator.post(held).status_code == 405
