"""Who may ask for what: every address of the product by 26 kinds of people and 6 methods.

The addresses come from the resolver and the roles from ``MAY`` in test_everyone_everywhere.py. A kind of people that
lost something (a group, a part in the batch, the account, the token) has what is left. Each request is undone.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from typing import Any

from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from annotation.core.study_scope import limit_to_studies
from annotation.models import ROLES, ApiToken, Person
from annotation.services.batches.batches import add_members
from annotation.services.batches.members import set_member_active
from annotation.services.people.people import add_person, deactivate_person, set_roles
from annotation.services.people.tokens import make_token
from annotation.services.studies import create_study
from tests.test_everyone_everywhere import (
    ADDRESSES,
    ANSWERED,
    BODIES,
    MAY,
    MODELS,
    OF_ITS_OWNER,
    PUBLIC,
    QUERIES,
    RATIONALE,
    World,
)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
BASIC_KINDS = frozenset(
    {
        *("not signed in", "in no group", *ROLES),
        *("annotator without the group", "adjudicator without the group"),
        *("member of another study", "member of another study in this one"),
    }
)
SAFE = frozenset({"GET", "HEAD"})
REFUSED = frozenset({403, 404, 405})
# What only members of the world's batch, and whoever holds its claims, are given.
OF_THE_BATCH = frozenset({"api-next", "api-next-dispute", "work-batch", "work-ahead", "dispute-batch"})
# What has a parameter and is of no study.
OF_THE_SITE = (
    "api-manage-guideline",
    "audit-file",
    "chart",
    "dispute-reason",
    "guideline",
    "import-template",
    "judge-template",
    "must-fail",
    "note-resolve",
    "operations",
    "second-factor",
    "study-archive",
    "study-certificate",
    "study-deletion",
)
# Forms on another page: whoever opens their address is led to that page, whether it is there or not.
FORMS = frozenset(
    {f"person-{form}" for form in ("add", "roles", "name", "languages", "models", "link", "exposure")}
    | {"person-provider-link"}
    | {"import-check", "import-confirm"}
    | {f"webhook-{form}" for form in ("secret", "active", "test", "again")}
    | {f"campaign-{form}" for form in ("state", "members", "member-remove", "quota")}
)
# It offers the models of data that the person does not judge, which may be those of what they do.
OFFERS_OTHER_MODELS = frozenset({"new-run"})
OF_ADMINS = frozenset(
    {"study-new", "person-erasure", "study-archive", "study-deletion"}
    | {"study-certificates", "study-certificate", "study-certificate-file"}
    | {f"operations{part}" for part in ("", "-live", "-job", "-job-retry", "-job-cancel", "-webhooks")}
    | {"person-session-revoke", "person-sessions-revoke", "person-factors-reset"}
    | {"person-provider-link", "person-provider-unlink"}
)
SHARED_BY_STUDIES = frozenset(
    {"care", "dispute-reasons", "dispute-reason", "dispute-reason-move", "dispute-reason-active"}
)
"""Managers read them; there are two studies here, so they change nothing of them."""
OFFICE = frozenset({"manager", "researcher"})
# What a refused request may write: who asked, and how often.
BOOKKEEPING = re.compile(
    r"django_session|annotation_apitoken|cache|annotation_auditevent|annotation_resultopening"
    r"|annotation_signinsession",
    re.IGNORECASE,
)
WRITE = re.compile(r"^\s*(INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
RATIONALE_WORD = RATIONALE.split(",", maxsplit=1)[0]


@dataclass(frozen=True)
class Kind:
    """``roles`` are columns of ``MAY``; ``owns``: the world's claims are theirs; ``is_blind``: no model, partner or
    label of the world's batch may reach them; ``scope``: of the token by which they ask, if they do.
    """

    name: str
    client: Client
    roles: frozenset[str] = frozenset()
    is_signed_in: bool = True
    is_member: bool = True
    owns: bool = True
    is_blind: bool = False
    is_admin: bool = False
    former_role: str = ""
    """That of the group which was taken away."""
    study: str = ""
    """Of another study: where this names one, the addresses have it in front; else they have none."""
    is_elsewhere: bool = False
    scope: str | None = None


@dataclass
class Outcome:
    requests: int = 0
    by_status: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def make_kinds(world: World) -> list[Kind]:
    people = world.people
    lin, wu, ma, he = (people[role] for role in ("annotator", "adjudicator", "manager", "researcher"))
    both = {"roles": frozenset({"annotator", "adjudicator"}), "is_member": False, "owns": False}
    return [
        Kind("not signed in", Client(), is_signed_in=False),
        Kind("in no group", sign_in(people["stranger"]), frozenset({"stranger"})),
        Kind("annotator", sign_in(lin), frozenset({"annotator"}), is_blind=True),
        Kind("adjudicator", sign_in(wu), frozenset({"adjudicator"}), is_blind=True),
        Kind("manager", sign_in(ma), frozenset({"manager"})),
        Kind("researcher", sign_in(he), frozenset({"researcher"})),
        Kind("viewer", sign_in(people["viewer"]), frozenset({"viewer"})),
        Kind("worker of no batch", sign_in(make_person("elsewhere", "annotator", "adjudicator")), **both),
        Kind("worker who left the batch", sign_in(make_past_member(world)), **both, is_blind=True),
        *(
            Kind(
                f"{role} without the group",
                sign_in(make_member(world, role)),
                frozenset({"stranger"}),
                former_role=role,
            )
            for role in ("annotator", "adjudicator")
        ),
        Kind(
            "manager who annotates",
            sign_in(make_judge(world, "manager", "annotator")),
            owns=False,
            roles=frozenset({"manager", "annotator"}),
            is_blind=True,
        ),
        Kind(
            "researcher who adjudicates",
            sign_in(make_judge(world, "researcher", "adjudicator")),
            owns=False,
            roles=frozenset({"researcher", "adjudicator"}),
            is_blind=True,
        ),
        Kind("admin", sign_in(Person.objects.create_superuser("admin")), is_admin=True, is_member=False),
        Kind("deactivated, with the session of before", make_deactivated(ma), is_signed_in=False),
        Kind(
            "annotator's token", use_token(lin, "work"), frozenset({"annotator"}), is_blind=True, scope="work"
        ),
        Kind("manager's token that reads", use_token(ma, "read"), frozenset({"manager"}), scope="read"),
        Kind("manager's token that manages", use_token(ma, "manage"), frozenset({"manager"}), scope="manage"),
        Kind("expired token", make_expired_token(ma), is_signed_in=False),
        *make_others(),
    ]


def make_others() -> list[Kind]:
    """Members of another study in each role, at addresses without a study; in all roles, there and at the world's."""
    study = create_study(name="elsewhere")
    with limit_to_studies([study.pk]):
        people = {role: add_person(name=f"other-{role}", roles=[role]) for role in ROLES}
        member = add_person(name="other-of-all-roles", roles=ROLES)
    other = {"is_elsewhere": True, "is_member": False, "owns": False, "is_blind": True}
    kinds = [
        Kind(f"{role} of another study", sign_in(person), frozenset({role}), **other)
        for role, person in people.items()
    ]
    return [
        *kinds,
        Kind("member of another study", sign_in(member), frozenset(ROLES), **other),
        Kind(
            "member of another study in this one",
            sign_in(member),
            frozenset(ROLES),
            study="default",
            **other,
        ),
    ]


def sign_in(person: Person) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(person)
    return client


def make_person(name: str, *roles: str) -> Person:
    return add_person(name=name, roles=roles)


def make_judge(world: World, office: str, role: str) -> Person:
    person = make_person(f"{office}-{role}", office, role)
    add_members(batch=world.batch, role=role, people=[person])
    return person


def make_past_member(world: World) -> Person:
    person = make_person("left", "annotator", "adjudicator")
    add_members(batch=world.batch, role="annotator", people=[person])
    set_member_active(
        batch=world.batch, person=person, role="annotator", active=False, actor=world.people["manager"]
    )
    return person


def make_member(world: World, role: str) -> Person:
    """A member of the batch whose group was taken away."""
    person = make_person(f"former-{role}", role)
    add_members(batch=world.batch, role=role, people=[person])
    set_roles(person=person, roles=[])
    return person


def make_deactivated(actor: Person) -> Client:
    person = make_person("gone", "manager", "researcher", "annotator")
    client = sign_in(person)
    deactivate_person(person=person, actor=actor)
    return client


def use_token(person: Person, scope: str) -> Client:
    _token, secret = make_token(person=person, name=scope, scope=scope, days=1, actor=person)
    return Client(headers={"Authorization": f"Token {secret}"}, raise_request_exception=False)


def make_expired_token(person: Person) -> Client:
    token, secret = make_token(person=person, name="expired", scope="manage", days=1, actor=person)
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    return Client(headers={"Authorization": f"Token {secret}"}, raise_request_exception=False)


def requests(
    kinds: Sequence[Kind], share: float = 1.0, seed: int = 0
) -> Iterator[tuple[str, list[str], str, Kind]]:
    """Name, parameters, method and kind of people of each request: the GETs and POSTs of strangers, of each role, of
    members of another study and of who lost the role that may, and of all the others a share drawn by ``seed``.

    Who has all roles in another study passes wherever one of them is asked for, and only the study is left to refuse:
    what people of a single role there are refused, they are.
    """
    rng = random.Random(seed)
    for name, parameters in ADDRESSES:
        for method, kind in product(METHODS, kinds):
            is_in_question = not kind.former_role or kind.former_role in MAY.get(name, ())
            is_basic = kind.name in BASIC_KINDS and is_in_question and method in {"GET", "POST"}
            if name != "logout" and (is_basic or rng.random() < share):
                yield name, parameters, method, kind


def walk_matrix(
    world: World,
    kinds: Sequence[Kind],
    *,
    share: float = 1.0,
    seed: int = 0,
    report: Callable[[int], object] = lambda _requests: None,
) -> Outcome:
    outcome = Outcome()
    for name, parameters, method, kind in requests(kinds, share, seed):
        path = within(kind.study, world.path(name, parameters)) + QUERIES.get(name, "")
        status, content, writes = ask(kind, path, method)
        outcome.requests += 1
        outcome.by_status[status] += 1
        reason = fault(kind, name, path, method, status, content, writes)
        if reason:
            outcome.faults.append(f"{method} {path} ({name}) by {kind.name}: {status}, {reason}")
        report(outcome.requests)
    return outcome


def within(study: str, path: str) -> str:
    """The address in the study."""
    if not study:
        return path
    root = "/api/v1/" if path.startswith("/api/v1/") else "/"
    return f"{root}s/{study}/{path.removeprefix(root)}"


def ask(kind: Kind, path: str, method: str) -> tuple[int, str, list[str]]:
    """Status, headers with content, and the statements that wrote; what it changed is taken back."""
    writes: list[str] = []

    def listen(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        answer = execute(sql, params, many, context)
        is_write = WRITE.match(sql) and not BOOKKEEPING.search(sql.split("WHERE", 1)[0])
        if is_write and context["cursor"].rowcount > 0:
            writes.append(sql[:120])
        return answer

    body, media = content_for(path, method)
    with transaction.atomic(), connection.execute_wrapper(listen):
        answer = kind.client.generic(method, path, body, content_type=media, headers={"Idempotency-Key": "k"})
        content = b"".join(answer.streaming_content) if answer.streaming else answer.content
        transaction.set_rollback(True)
    return answer.status_code, f"{answer.headers}\n{content.decode('utf-8', 'replace')}", writes


def content_for(path: str, method: str) -> tuple[str, str]:
    """A body that the API takes; pages get an empty form, which who may not send any must not even be told of."""
    if method in SAFE or not path.startswith("/api/"):
        return "", "application/x-www-form-urlencoded"
    return json.dumps(BODIES.get(path.rstrip("/").rpartition("/")[2], {})), "application/json"


def fault(
    kind: Kind, name: str, path: str, method: str, status: int, content: str, writes: Sequence[str]
) -> str | None:
    """What is wrong with the answer, if anything is."""
    if status >= 500:
        return "broken"
    may_tell = name in OFFERS_OTHER_MODELS or (kind.is_elsewhere and name in PUBLIC)
    leak = None if may_tell else find_leak(kind, path, status, content)
    if leak:
        return f"tells {leak}"
    expected = "nowhere" if kind.study else expect(kind, name, path, method)
    may_write = expected == "theirs" or (expected == "either" and status < 400)
    if writes and not may_write:
        return f"wrote: {writes[0]}"
    is_right = {
        "theirs": status in ANSWERED | {206, 404, 405, 410},
        "refused": status in REFUSED,
        "nowhere": status == 404,
        "not theirs": status in REFUSED | {422},  # a form is read before the item that it is about
        "sign in": status == 405 or is_sent_away(name, path, status, content),
        "either": True,
    }
    return None if is_right[expected] else f"expected: {expected}"


def find_leak(kind: Kind, path: str, status: int, content: str) -> str | None:
    """The secret that reaches who judges blind. A redirect repeats the address; after their verdict an adjudicator
    reads rationales; a page knows nothing of a token.
    """
    if not kind.is_blind or status == 302 or (kind.scope and not path.startswith("/api/")):
        return None
    secrets = MODELS if "adjudicator" in kind.roles else (*MODELS, RATIONALE_WORD)
    visible = content.replace(path, "").replace(path.partition("?")[2], "")
    return next((secret for secret in secrets if secret in visible), None)


def expect(kind: Kind, name: str, path: str, method: str) -> str:
    """``theirs``, ``refused``, ``not theirs``, ``sign in`` or, where it depends on more than the role, ``either``."""
    is_api = path.startswith("/api/") and name != "api-docs"
    if (
        name in PUBLIC
        or (kind.is_admin and (MAY.get(name) or name in OF_ADMINS))
        or (not MAY.get(name) and not is_asked_by_page(kind))
    ):
        return "either"
    if not kind.is_signed_in or (kind.scope and not is_api):
        return "sign in"
    is_refused = name in SHARED_BY_STUDIES and method not in SAFE
    permitted = frozenset() if is_refused else MAY.get(name, frozenset())
    if not kind.roles & permitted or not reaches(kind.scope, name, method):
        return "refused"
    if not kind.owns and (name in OF_ITS_OWNER or "assignment_id" in dict(ADDRESSES)[name]):
        return "not theirs"
    is_there = not kind.is_elsewhere or is_of_the_site(name)
    if not is_there or (not kind.is_member and name in OF_THE_BATCH):
        return "either" if name in FORMS and method in SAFE else "refused"
    return "either" if kind.is_blind and kind.roles & OFFICE else "theirs"


def is_of_the_site(name: str) -> bool:
    """Whether the address names nothing that is of a study."""
    parameters = dict(ADDRESSES)[name]
    return not parameters or (name.startswith(OF_THE_SITE) and "item_id" not in parameters)


def is_asked_by_page(kind: Kind) -> bool:
    return kind.is_signed_in and kind.scope is None


def reaches(scope: str | None, name: str, method: str) -> bool:
    """Whether a token's scope reaches the call; a session has no scope."""
    is_in_loop = name.startswith("api-") and not name.startswith(("api-prediction", "api-manage"))
    return scope in {None, "manage"} or (is_in_loop if scope == "work" else method in SAFE)


def is_sent_away(name: str, path: str, status: int, content: str) -> bool:
    if path.startswith("/api/") and name != "api-docs":
        return status == 401
    return status == 302 and "/sign-in/?" in content
