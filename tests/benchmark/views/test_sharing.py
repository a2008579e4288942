"""Links for outsiders: who can open what with them, and what such a page must never tell."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.models import AuditEvent, Batch, Collection, Dataset, Guideline, Person, Response
from annotation.selectors.people import hash_secret
from annotation.services.people.people import set_roles
from benchmark.models import BenchmarkRun, ShareLink
from benchmark.selectors.sharing import find_open_link, find_state
from benchmark.services.leaderboards.runs import create_run
from benchmark.services.published_tables import add_published
from benchmark.services.sharing import revoke_link, share_run
from tests.benchmark.sharing_support import finish
from tests.benchmark.support import ready_scorer, release_of, settle_by_dimension
from tests.support import first_batch, small_dataset

VIEWS = ("", "pairs", "groups", "estimates", "lineage")
LINK = re.compile(r'(?:href|src|action|hx-[a-z]+)="([^"]*)"')


@pytest.fixture(scope="module")
def board(module_db: None) -> str:
    batch = first_batch()
    settle_by_dimension(batch)
    return run_named("board", batch, small_dataset(), batch.guideline).name


@pytest.fixture
def run(db: None, board: str) -> BenchmarkRun:
    return BenchmarkRun.objects.get(name=board)


def run_named(name: str, batch: Batch, dataset: Dataset, guideline: Guideline) -> BenchmarkRun:
    scorer = ready_scorer(release_of(batch, f"gold of {name}"), guideline, f"scorer of {name}")
    usual = Collection.objects.get(name="")
    return finish(create_run(name=name, scorer=scorer, dataset=dataset, collection=usual, send=False))


@pytest.fixture
def link(run: BenchmarkRun, he: Person) -> tuple[ShareLink, str]:
    return share_run(run=run, actor=he, note="for the reviewers")


@pytest.fixture
def outsider() -> Client:
    return Client()


def page(client: Client, token: str, query: str = "", language: str = "") -> Any:
    address = reverse("shared-in", args=[token, language]) if language else reverse("shared", args=[token])
    return client.get(address + query)


def test_the_secret_is_long_random_and_kept_nowhere(run: BenchmarkRun, he: Person):
    (share_link, first), (_other, second) = (share_run(run=run, actor=he) for _time in range(2))
    assert first != second
    assert len(first) >= 43  # 256 bits in base64
    assert share_link.token_sha256 == hash_secret(first)
    values = [str(value) for row in ShareLink.objects.values() for value in row.values()]
    values += [str(value) for row in AuditEvent.objects.values() for value in row.values()]
    assert not any(first in value for value in values)
    open_link = find_open_link(first)
    assert open_link is not None
    assert open_link[0] == share_link


def test_an_outsider_reads_the_board_and_no_cookie_is_set(link: tuple[ShareLink, str], outsider: Client):
    answer = page(outsider, link[1])
    content = answer.content.decode()
    assert answer.status_code == 200
    assert "Secretive-7B" in content
    assert "100.0%" in content
    assert not answer.cookies
    assert answer.headers["Cache-Control"] == "private, no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "noindex" in answer.headers["X-Robots-Tag"]
    assert '<meta name="robots" content="noindex' in content
    assert "Content-Security-Policy" in answer.headers


@pytest.mark.parametrize("language", ["", "zh-hans"])
def test_no_text_no_person_and_no_way_into_the_product(
    link: tuple[ShareLink, str],
    outsider: Client,
    run: BenchmarkRun,
    guideline: Guideline,
    language: str,
):
    link[0].with_published = True
    link[0].save()
    add_published(
        guideline=guideline,
        dataset=run.dataset,
        name="Paper",
        source="A paper",
        url="https://example.com/p",
        rows=PAPER,
    )
    secrets = [r"\blin\b", r"\bchen\b", r"\bhe\b(?! )", "for the reviewers", "Question number", "Answer 0 to"]
    assert Response.objects.filter(text__startswith="Answer 0 to").exists()
    seen = 0
    for view in VIEWS:
        answer = page(outsider, link[1], f"?view={view}" if view else "", language)
        if answer.status_code == 404:  # the run has no such part
            continue
        seen += 1
        content = answer.content.decode()
        assert not answer.cookies
        visible = re.sub(r"<[^>]+>", " ", content)
        assert [secret for secret in secrets if re.search(secret, visible)] == []
        assert "<form" not in content or 'method="get"' in content
        for target in LINK.findall(content):
            allowed = target.startswith(("?", "#", "/static/", f"/shared/{link[1]}/", "https://example.com/"))
            assert allowed, (view, target)
    assert seen >= 2


PAPER = [{"model": "Paper-1", "dimensions": {"safe": {"full_compliance_rate": 0.9}}, "overall": {}, "n": {}}]


def test_the_lineage_stands_there_by_name_and_hash(
    link: tuple[ShareLink, str], outsider: Client, run: BenchmarkRun
):
    content = page(outsider, link[1], "?view=lineage").content.decode()
    scorer = run.scorer
    for part in (
        scorer.name,
        scorer.weights_sha256,
        scorer.release.name,
        scorer.release.sha256,
        str(scorer.guideline),
        scorer.guideline.sha256,
        run.dataset.name,
    ):
        assert part in content
    assert "Wilson" in content


def test_the_reader_chooses_the_language(link: tuple[ShareLink, str], outsider: Client):
    english = page(outsider, link[1]).content.decode()
    chinese = page(outsider, link[1], "", "zh-hans").content.decode()
    negotiated_page = outsider.get(
        reverse("shared", args=[link[1]]), headers={"Accept-Language": "zh-CN"}
    ).content.decode()
    assert '<html lang="en"' in english
    assert '<html lang="zh-hans"' in chinese
    assert '<html lang="zh-hans"' in negotiated_page
    assert reverse("shared-in", args=[link[1], "zh-hans"]) in english
    assert reverse("shared-in", args=[link[1], "en"]) in chinese
    assert page(outsider, link[1], "", "xx").status_code == 404


def test_its_charts_open_and_no_other(
    link: tuple[ShareLink, str], outsider: Client, run: BenchmarkRun, he: Person
):
    content = page(outsider, link[1]).content.decode()
    charts = re.findall(r'src="(/shared/[^"]+\.svg)"', content)
    assert charts
    for address in charts:
        answer = outsider.get(address)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "image/svg+xml"
        assert answer.headers["Cache-Control"] == "private, no-store"
        assert not answer.cookies
        key = address.rpartition("/")[2].removesuffix(".svg")
        assert outsider.get(reverse("chart", args=[key])).status_code == 302  # the product's own: sign in
        proof = address.split("/")[4]
        other = "0" * 64
        assert outsider.get(reverse("shared-chart", args=[link[1], proof, other])).status_code == 404
        _second, another = share_run(run=run, actor=he)
        assert outsider.get(reverse("shared-chart", args=[another, proof, key])).status_code == 404
    revoke_link(link=link[0], actor=he)
    assert outsider.get(charts[0]).status_code == 404


def test_unknown_expired_and_revoked_get_the_same_answer(run: BenchmarkRun, he: Person, outsider: Client):
    revoked, revoked_token = share_run(run=run, actor=he)
    revoke_link(link=revoked, actor=he)
    revoke_link(link=revoked, actor=he)
    expired, expired_token = share_run(run=run, actor=he, days=1)
    assert page(outsider, expired_token).status_code == 200
    ShareLink.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    answers = [page(outsider, token) for token in (revoked_token, expired_token, "unknown", "x" * 43)]
    answers += [page(outsider, token, "?view=pairs", "zh-hans") for token in (revoked_token, "unknown")]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers[:4]}) == 1
    for answer in answers:
        del answer.headers["X-Request-ID"]
    assert len({str(answer.headers) for answer in answers[:4]}) == 1
    assert AuditEvent.objects.filter(verb="revoke_link").count() == 1
    revoked.refresh_from_db()
    expired.refresh_from_db()
    assert (find_state(revoked), find_state(expired)) == ("revoked", "expired")


def test_hostile_addresses_get_404(db: None, outsider: Client):
    for token in ("x" * 10_000, "a%00b", "%FF%FE", "..", "你好", "'; drop table", "-"):
        for address in (
            f"/shared/{token}/",
            f"/shared/{token}/en/",
            f"/shared/{token}/charts/{token}/{token}.svg",
        ):
            assert outsider.get(address).status_code == 404, address[:80]


def test_a_query_for_what_is_not_there_gets_404_and_no_page_of_the_product(
    link: tuple[ShareLink, str], outsider: Client
):
    for query in ("?view=time", "?view=none", "?metric=none", "?view=pairs&model=" + "x" * 5000):
        answer = page(outsider, link[1], query)
        assert answer.status_code == 404, query[:40]
        assert not answer.cookies
        assert "/sign-in/" not in answer.content.decode()


def test_nothing_can_be_sent_to_it(link: tuple[ShareLink, str], outsider: Client):
    for method in (outsider.post, outsider.put, outsider.delete, outsider.patch):
        assert method(reverse("shared", args=[link[1]])).status_code == 405
    head = outsider.head(reverse("shared", args=[link[1]]))
    assert (head.status_code, head.content) == (200, b"")
    link[0].refresh_from_db()
    assert link[0].last_opened_at is None


def test_when_it_was_last_opened_counts_outsiders_and_writes_once_a_minute(
    link: tuple[ShareLink, str], outsider: Client, he: Person, client: Client
):
    client.force_login(he)
    assert page(client, link[1]).status_code == 200
    link[0].refresh_from_db()
    assert link[0].last_opened_at is None
    page(outsider, link[1])
    link[0].refresh_from_db()
    first = link[0].last_opened_at
    assert first is not None
    page(outsider, link[1])
    link[0].refresh_from_db()
    assert link[0].last_opened_at == first
    ShareLink.objects.update(last_opened_at=first - timedelta(minutes=2))
    page(outsider, link[1])
    link[0].refresh_from_db()
    assert link[0].last_opened_at is not None
    assert link[0].last_opened_at >= first


def test_who_judges_behind_the_run_is_refused_while_signed_in(
    link: tuple[ShareLink, str], lin: Person, client: Client
):
    client.force_login(lin)
    answer = page(client, link[1])
    assert answer.status_code == 403
    assert b"Secretive-7B" not in answer.content


# Making and revoking.


def test_the_address_is_shown_once_to_who_makes_it(
    run: BenchmarkRun, he: Person, client: Client, outsider: Client
):
    client.force_login(he)
    answer = client.post(reverse("run-share", args=["board"]), {"note": "<b>reviewers</b>", "days": "30"})
    assert "no-store" in answer.headers["Cache-Control"]
    match = re.search(r'value="(http://testserver(/shared/[^"]+/))"', answer.content.decode())
    assert match is not None
    assert outsider.get(match[2]).status_code == 200
    listed = client.get(reverse("run-links", args=["board"])).content.decode()
    assert "/shared/" not in listed
    assert "&lt;b&gt;reviewers" in listed
    link = ShareLink.objects.get()
    assert link.created_by == he
    assert link.expires_at is not None
    assert timedelta(days=29) < link.expires_at - timezone.now() <= timedelta(days=30)
    client.post(reverse("run-link-revoke", args=["board", link.pk]))
    assert outsider.get(match[2]).status_code == 404
    event = AuditEvent.objects.get(verb="share_run")
    assert (event.actor, event.target) == (he, "run:board")


def test_a_bad_form_makes_no_link(run: BenchmarkRun, he: Person, client: Client):
    client.force_login(he)
    for data in (
        {"days": "0"},
        {"days": "9" * 5000},
        {"days": "soon"},
        {"note": "x" * 201},
        {"note": "a\0b"},
    ):
        assert client.post(reverse("run-share", args=["board"]), data).status_code == 422, str(data)[:40]
        assert not ShareLink.objects.exists()


def test_a_link_of_another_run_is_not_revoked_through_this_one(
    run: BenchmarkRun, batch: Batch, dataset: Dataset, guideline: Guideline, he: Person, client: Client
):
    other = run_named("other", batch, dataset, guideline)
    link, token = share_run(run=other, actor=he)
    client.force_login(he)
    assert client.post(reverse("run-link-revoke", args=["board", link.pk])).status_code == 404
    assert client.post(f"/runs/other/links/{'9' * 5000}/revoke/").status_code == 404
    assert client.post(f"/runs/other/links/{'9' * 30}/revoke/").status_code == 404
    assert find_open_link(token) is not None


def test_a_manager_reads_the_links_and_makes_none(run: BenchmarkRun, ma: Person, client: Client):
    client.force_login(ma)
    listed = client.get(reverse("run-links", args=["board"]))
    assert listed.status_code == 200
    assert b"Create the link" not in listed.content
    assert client.post(reverse("run-share", args=["board"])).status_code == 403
    assert not ShareLink.objects.exists()


def test_who_judges_behind_the_run_makes_no_link(run: BenchmarkRun, lin: Person, client: Client):
    set_roles(person=lin, roles=["annotator", "researcher"])
    client.force_login(lin)
    assert client.post(reverse("run-share", args=["board"])).status_code == 403
    with pytest.raises(Forbidden):
        share_run(run=run, actor=lin)


def test_only_a_finished_run_is_shared_and_only_for_so_long(run: BenchmarkRun, dataset: Dataset, he: Person):
    with pytest.raises(AssayError, match="1 to 1825 days"):
        share_run(run=run, actor=he, days=0)
    waiting = create_run(
        name="waiting", scorer=run.scorer, dataset=dataset, collection=run.collection, send=False
    )
    with pytest.raises(Conflict, match="no leaderboard yet"):
        share_run(run=waiting, actor=he)
