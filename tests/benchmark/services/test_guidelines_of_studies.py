"""A guideline that a study wrote is seen in no other study, but where a release of its labels is shared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from annotation.core.errors import Conflict, NotFound
from annotation.core.study_scope import limit_to_studies
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Guideline, Person, Study
from annotation.selectors.guidelines import (
    copy_guideline,
    get_guideline,
    list_families,
    list_notes,
    list_shipped,
)
from annotation.services.guidelines import leave_own_note, load_guideline
from annotation.services.people.people import set_roles
from annotation.services.releases import cut_release
from annotation.services.sharing import share
from annotation.services.studies import create_study
from benchmark.selectors.leaderboards.freshness import compute_freshness
from tests.benchmark.studies import Part, make_part
from tests.benchmark.support import settle_by_dimension
from tests.support import make_batch, make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture(autouse=True)
def data_folder(settings: Any, tmp_path: Path) -> None:
    settings.ASSAY_DATA_DIR = tmp_path


@pytest.fixture
def parts(
    guideline: Guideline, lin: Person, chen: Person, wu: Person, he: Person, ma: Person
) -> tuple[Part, Part]:
    first, second = (make_part(name, guideline, [lin, chen, wu, he]) for name in ("alpha", "beta"))
    for part in (first, second):
        with limit_to_studies([part.study.pk]):
            set_roles(person=ma, roles=["manager"])
    return first, second


def write_version(study: Study, version: str = "9", *, name: str = "xstest", sign: str = "") -> Guideline:
    """A version of the shipped guideline, published in the study, with a sign in its title."""
    with limit_to_studies([study.pk]):
        text = get_guideline("xstest").source
        old = get_guideline("xstest").version
        text = text.replace("name: xstest", f"name: {name}", 1)
        assert f'version: "{old}"' in text
        text = text.replace(f'version: "{old}"', f'version: "{version}"', 1)
        return load_guideline(text=f"{text}\n# {sign}\n", path="g.yaml", publish=True)


def test_a_guideline_that_comes_with_assay_is_of_the_site(parts: tuple[Part, Part], guideline: Guideline):
    assert guideline.study is None
    for part in parts:
        with limit_to_studies([part.study.pk]):
            assert get_guideline("xstest") == guideline
            assert list(list_shipped())


def test_a_version_of_one_study_is_not_there_in_another(
    parts: tuple[Part, Part], guideline: Guideline, ma: Person
):
    first, second = parts
    own = write_version(first.study, name="secret-guide")
    assert own.study == first.study
    client = Client()
    client.force_login(ma)
    pages = (
        "guidelines/",
        "guidelines/-/new/",
        "batches/-/new/small/",
        "import/-/new/",
        "runs/-/judges/-/new/",
    )
    for page in pages:
        answers = {
            study.name: client.get(f"/s/{study.name}/{page}").content.decode()
            for study in (first.study, second.study)
        }
        assert "secret-guide" not in answers["beta"], page
    assert "secret-guide" in client.get("/s/alpha/guidelines/").content.decode()
    assert client.get("/s/alpha/guidelines/secret-guide/9/").status_code == 200
    assert client.get("/s/beta/guidelines/secret-guide/9/").status_code == 404
    with limit_to_studies([second.study.pk]):
        with pytest.raises(NotFound) as refusal:
            get_guideline("secret-guide")
        assert "secret-guide@9" not in str(refusal.value)
        assert [family.name for family in list_families(drafts=True)] == ["xstest"]


def test_a_new_version_makes_no_board_of_another_study_stale(parts: tuple[Part, Part]):
    first, second = parts
    write_version(first.study)
    with limit_to_studies([first.study.pk]):
        assert "newer_guideline" in compute_freshness(first.run).kinds
    with limit_to_studies([second.study.pk]):
        assert not compute_freshness(second.run).is_stale


def test_two_studies_may_have_the_same_version(parts: tuple[Part, Part]):
    first, second = parts
    versions = [write_version(part.study) for part in parts]
    assert [version.study for version in versions] == [first.study, second.study]
    for part, own in zip(parts, versions, strict=True):
        with limit_to_studies([part.study.pk]):
            assert get_guideline("xstest@9") == own
            assert 'version: "10"' in copy_guideline("xstest@9")
    copied = Guideline(name="xstest", version="9", source="", content={}, study=first.study)
    with pytest.raises(IntegrityError), transaction.atomic():
        copied.save()
    copied.study = None
    copied.save()
    with pytest.raises(IntegrityError), transaction.atomic():
        Guideline(name="xstest", version="9", source="", content={}).save()


def test_a_shared_release_brings_its_guideline(
    parts: tuple[Part, Part], lin: Person, chen: Person, ma: Person
):
    first, second = parts
    own = write_version(first.study)
    with limit_to_studies([first.study.pk]):
        batch = make_batch(
            own, make_corpus(prompts=2, models=["M"], name="more"), annotators=[lin, chen], name="n"
        )
        settle_by_dimension(batch)
        release = cut_release(ReleaseSpec(name="gold-n", batches=[batch]))
        share(row=release, study=second.study, actor=ma)
    with limit_to_studies([second.study.pk]):
        assert get_guideline("xstest@9") == own
        assert not compute_freshness(second.run).is_stale
    third = create_study(name="delta")
    write_version(third)
    with limit_to_studies([first.study.pk]), pytest.raises(Conflict, match="xstest@9"):
        share(row=release, study=third, actor=ma)


def test_a_note_is_read_in_the_study_of_who_left_it(
    parts: tuple[Part, Part], guideline: Guideline, ma: Person
):
    first, second = parts
    with limit_to_studies([first.study.pk]):
        note = leave_own_note(guideline=guideline, author=ma, text="Too strict")
        assert list(list_notes(ma)) == [note]
    with limit_to_studies([second.study.pk]):
        assert not list_notes(ma).exists()


def test_what_all_studies_share_is_changed_by_an_admin_where_there_are_several(
    parts: tuple[Part, Part], ma: Person
):
    client = Client()
    client.force_login(ma)
    pages = ("guidelines/-/reasons/", "wellbeing/")
    for page in pages:
        answer = client.get(f"/s/alpha/{page}")
        assert answer.status_code == 200
        assert "only an admin changes it" in answer.content.decode()
        answer = client.post(f"/s/alpha/{page}", {"daily_exposure": "3", "en": "New", "zh": "新"})
        assert answer.status_code == 403
        assert "only an admin may" in answer.content.decode()
    Person.objects.filter(pk=ma.pk).update(is_superuser=True)
    assert [client.get(f"/s/alpha/{page}").status_code for page in pages] == [200, 200]
