"""Batches of each origin, made at random from a seed; their documents; and the sentences that stand there falsely."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from django.utils.translation import gettext, override

from annotation.core.documents import Fact, Paragraph
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Channel, GoldLabel, GoldRelease, Task
from annotation.selectors.origins import add_origins
from annotation.selectors.reports import build_batches_report, build_release_report
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_dispute, claim_next_task
from annotation.services.batches.tasks import withdraw_tasks
from annotation.services.exports import export_release
from annotation.services.exports.datasheet import SheetTable, render_datasheet
from annotation.services.imports import BundleNames, ImportRequest, import_annotations, import_bundle
from annotation.services.people.people import add_person
from annotation.services.releases import cut_release
from annotation.views.reports import render_notes, render_report
from tests.annotation.gold_question_support import make_checked
from tests.documents.claims import CLAIMS, RETIRED
from tests.documents.facts import StoredFacts, read_facts
from tests.support import (
    XSTEST_GUIDELINE,
    as_made_by_import,
    make_batch,
    make_corpus,
    person,
    read_introduction,
)

MODELS = ("Secretive-7B", "Hidden-13B")
LEVELS = (1, 2, 3)
LANGUAGES = ("en", "zh-hans")
WORDS = (
    "Three nurses in a spreadsheet; they saw which model it was.",
    "GPT-4 judged each response once, at temperature 0.",
    "两名学生，互不知情，\n用 Label Studio 标注。",
)
TAKES_WORDS = "protocol" in inspect.signature(import_annotations).parameters


class Maker:
    """Makes the batches of one origin; what is left to chance comes from ``seed``."""

    def __init__(self, seed: int, folder: Path, prompts: tuple[int, int] = (3, 6)) -> None:
        self._random, self._folder, self._prompts = Random(seed), folder, prompts
        self._guideline = XSTEST_GUIDELINE.load()
        self._people = [person(name) for name in ("lin", "chen", "zhou")]

    def annotate_here(
        self,
        *,
        channels: Sequence[str] = (Channel.PAGE,),
        overlap: int = 2,
        decide: float = 1.0,
        **policy: Any,
    ) -> Batch:
        """A batch in which people worked; ``decide`` is the share of its disputes that are decided."""
        dataset = make_corpus(
            prompts=self._random.randint(*self._prompts), models=MODELS, name=f"d-{uuid4().hex[:8]}"
        )
        batch = make_batch(
            self._guideline,
            dataset,
            annotators=self._people,
            adjudicators=[person("wu")],
            name=f"b-{uuid4().hex[:8]}",
            policy=Policy(overlap=overlap, second_reading_share=0, **policy),
        )
        self.work(batch, channels, decide)
        return batch

    def annotate_with_gold_questions(self, channels: Sequence[str] = (Channel.PAGE,)) -> Batch:
        batch = make_checked(
            self._guideline,
            annotators=self._people,
            prompts=max(6, self._prompts[0]),
            checks=4,
            check_share=0.4,
            name=f"g-{uuid4().hex[:8]}",
        )
        read_introduction(batch)
        self.work(batch, channels, 0)
        return batch

    def work(self, batch: Batch, channels: Sequence[str], decide: float) -> None:
        """Everybody annotates, one of them perhaps not to the end."""
        for annotator in self._people:
            items = self._random.choice([3, 100])
            while items and (assignment := claim_next_task(batch=batch, person=annotator)) is not None:
                work = Submission(
                    {"compliance": self._level()}, channel=self._random.choice(channels), seconds=9
                )
                submit(assignment_id=assignment.pk, person=annotator, key=uuid4().hex, work=work)
                items -= 1
        wu = person("wu")
        disputes = Task.objects.filter(batch=batch, state=Task.State.DISPUTED).count()
        for _dispute in range(round(decide * disputes)):
            claim = claim_next_dispute(batch=batch, person=wu)
            if claim is None:
                return
            labels = {"compliance": self._level()}
            record_verdict(assignment_id=claim.pk, person=wu, work=Submission(labels))
            work = Submission(
                labels, rationale="so", reason="reading_slip", channel=self._random.choice(channels)
            )
            adjudicate(assignment_id=claim.pk, person=wu, key=uuid4().hex, work=work)

    def withdraw(self, batch: Batch) -> None:
        tasks = batch.tasks.filter(
            kind=Task.Kind.WORK, state__in=[Task.State.OPEN, Task.State.DISPUTED]
        ).order_by("pk")
        withdraw_tasks(batch=batch, tasks=[tasks.values_list("pk", flat=True)[0]], reason="broken")

    def put(
        self,
        batch: Batch | None = None,
        *,
        decide: bool = False,
        words: str | None = None,
        decisions_only: bool = False,
    ) -> Batch:
        """A file of labels made elsewhere, into a batch of its own or into the free places of this one."""
        if batch is None:
            dataset = make_corpus(
                prompts=self._random.randint(*self._prompts), models=MODELS, name=f"d-{uuid4().hex[:8]}"
            )
            name, free = f"i-{uuid4().hex[:8]}", None
        else:
            as_made_by_import(batch)
            dataset, name = batch.tasks.earliest("pk").response.prompt.dataset, batch.name
            free = set(
                batch.tasks.filter(kind=Task.Kind.WORK, state=Task.State.OPEN, slots_taken=0).values_list(
                    "response", flat=True
                )
            )
        rows: list[dict[str, Any]] = []
        people = [f"{role}-{uuid4().hex[:6]}" for role in ("ann", "ben", "cleo")]
        overlap = 2 if batch is None else min(2, batch.overlap)
        if decisions_only and batch is not None:
            disputed = batch.tasks.filter(state=Task.State.DISPUTED)
            rows += [self._row(task.response, adjudicator=people[2]) for task in disputed]
        else:
            for response in _list_responses(dataset):
                if free is not None and response.pk not in free:
                    continue
                pair = [self._row(response, annotator=name) for name in people[:overlap]]
                rows += pair
                values = {row["labels"]["compliance"] for row in pair}
                if decide and len(values) > 1 and (batch is None or batch.overlap == overlap):
                    rows.append(self._row(response, adjudicator=people[2]))
        for maker in people:
            add_person(name=maker)
        path = self._folder / f"{uuid4().hex[:8]}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        if rows:
            import_annotations(
                source=Source(path, path.name),
                format="jsonl",
                request=ImportRequest(batch=name, guideline="xstest", dataset=dataset.name),
                new_people=True,
                **({"protocol": words} if words and TAKES_WORDS else {}),
            )
        return Batch.objects.get(name=name)

    def carry(self, batch: Batch) -> Batch:
        """The batch as a bundle of its own release brings it."""
        release = cut_release(ReleaseSpec(name=f"r-{uuid4().hex[:8]}", batches=[batch]))
        folder = self._folder / release.name
        export_release(release=release, format_name="bundle", folder=folder)
        name = f"c-{uuid4().hex[:8]}"
        import_bundle(
            source=Source(folder / "bundle.zip", "bundle.zip"), called=BundleNames({batch.name: name})
        )
        return Batch.objects.get(name=name)

    def choose_words(self) -> str:
        return self._random.choice(WORDS)

    def _row(self, response: Any, **names: str) -> dict[str, Any]:
        about = {"prompt_id": response.prompt.key, "model": response.model.name}
        return about | names | {"labels": {"compliance": self._level()}}

    def _level(self) -> int:
        return self._random.choice(LEVELS)


def _list_responses(dataset: Any) -> list[Any]:
    from annotation.models import Response

    return list(
        Response.objects.filter(prompt__dataset=dataset).select_related("prompt", "model").order_by("pk")
    )


def _withdrawn(maker: Maker) -> Batch:
    batch = maker.annotate_here(decide=0)
    maker.withdraw(batch)
    return batch


ORIGINS: dict[str, Callable[[Maker], Sequence[Batch]]] = {
    "page": lambda maker: [maker.annotate_here()],
    "token": lambda maker: [maker.annotate_here(channels=[Channel.TOKEN])],
    "page, one annotation each": lambda maker: [maker.annotate_here(overlap=1)],
    "page, three within a tolerance": lambda maker: [maker.annotate_here(overlap=3, tolerance=1)],
    "page, disputes undecided": lambda maker: [maker.annotate_here(decide=0.4)],
    "page, gold questions": lambda maker: [maker.annotate_with_gold_questions()],
    "page, a task withdrawn": lambda maker: [_withdrawn(maker)],
    "channel not recorded": lambda maker: [maker.annotate_here(channels=[""])],
    "import, nothing written": lambda maker: [maker.put(decide=True)],
    "import, disputes undecided": lambda maker: [maker.put()],
    "import, in words": lambda maker: [maker.put(decide=True, words=maker.choose_words())],
    "import, a language model judged": lambda maker: [maker.put(decide=True, words=WORDS[1])],
    "mixed batch": lambda maker: [maker.put(maker.annotate_here(overlap=2), words=maker.choose_words())],
    "decisions imported": lambda maker: [maker.put(maker.annotate_here(decide=0), decisions_only=True)],
    "two batches, one imported": lambda maker: [maker.annotate_here(), maker.put(decide=True)],
    "bundle of work there": lambda maker: [maker.carry(maker.annotate_here())],
    "bundle of an import, in words": lambda maker: [maker.carry(maker.put(decide=True, words=WORDS[0]))],
    "manifest of before": lambda maker: [maker.annotate_here(), maker.put(decide=True)],
}


@dataclass(frozen=True)
class FalseSentence:
    document: str
    language: str
    message: str
    text: str


def search_origin(origin: str, seed: int) -> tuple[int, list[FalseSentence]]:
    """How many sentences that state how something was done stand in the documents of such batches, and which of them
    have no stored fact.
    """
    with TemporaryDirectory() as folder:
        batches = ORIGINS[origin](Maker(seed, Path(folder)))
    ids = [batch.pk for batch in batches]
    batches = list(Batch.objects.filter(pk__in=ids).select_related("guideline"))
    total, false = 0, []
    for document, facts, render in _list_documents(batches, is_old=origin == "manifest of before"):
        for language in LANGUAGES:
            with override(language):
                blocks = list(render(language))
            for message, holds, text, values in find_claims(blocks, language):
                total += 1
                if not holds(facts, values):
                    false.append(FalseSentence(document, language, message, text))
    return total, false


Render = Callable[[str], Iterator[str]]


def _list_documents(batches: Sequence[Batch], *, is_old: bool) -> Iterator[tuple[str, StoredFacts, Render]]:
    report = build_batches_report(batches)
    yield "report", read_facts(batches), lambda _language: list_report_texts(report)
    has_gold = GoldLabel.objects.filter(task__batch__in=batches, task__kind=Task.Kind.WORK).exclude(
        task__state=Task.State.WITHDRAWN
    )
    if not has_gold.exists():
        return
    release = cut_release(ReleaseSpec(name=f"r-{uuid4().hex[:8]}", batches=list(batches)))
    if is_old:
        manifest = {name: value for name, value in release.manifest.items() if name != "imported"}
        for entry in (*manifest["protocol"], manifest["people"]):
            entry.pop("here", None)
        GoldRelease.objects.filter(pk=release.pk).update(manifest=manifest)
        release.refresh_from_db()
        unknown = read_facts(batches, release, knows_imports=False)
        yield "datasheet", unknown, lambda language: _list_sheet_texts(release.manifest, language)
    facts = read_facts(batches, release)
    yield "datasheet", facts, lambda language: _list_sheet_texts(add_origins(release), language)
    released = build_release_report(release)
    yield "release's report", facts, lambda _language: list_report_texts(released)


def _list_sheet_texts(manifest: Mapping[str, Any], language: str) -> Iterator[str]:
    """Its texts, cell by cell in tables, without what is quoted."""
    for section in render_datasheet(manifest, language):
        for block in section.blocks:
            if isinstance(block, SheetTable):
                yield block.title
                yield from (cell for row in (block.head, *block.rows) for cell in row)
            elif isinstance(block, Paragraph) and not block.quoted:
                yield " ".join(block.text.split())


def list_report_texts(report: Mapping[str, Any]) -> Iterator[str]:
    for section in render_report(report):
        for block in section.blocks:
            if isinstance(block, Fact):
                yield block.term
                yield " ".join(block.text.split())
    yield from render_notes(*([report] if inspect.signature(render_notes).parameters else []))


def find_claims(
    blocks: Sequence[str], language: str, claims: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, Any, str, dict[str, str]]]:
    """Each registered sentence of the texts, the longest of those that begin at one place or lie in one another."""
    for block in blocks:
        longest: dict[int, tuple[str, Any, re.Match[str]]] = {}
        for message, holds in (claims or {**RETIRED, **CLAIMS}).items():
            pattern, is_sentence = _compile_message(message, language)
            for match in pattern.finditer(block) if is_sentence else filter(None, [pattern.fullmatch(block)]):
                known = longest.get(match.start())
                if known is None or match.end() > known[2].end():
                    longest[match.start()] = (message, holds, match)
        spans = [match.span() for _message, _holds, match in longest.values()]
        for message, holds, match in longest.values():
            start, end = match.span()
            if not any(low <= start and end <= high and (low, high) != (start, end) for low, high in spans):
                yield message, holds, match[0], match.groupdict()


@cache
def _compile_message(message: str, language: str) -> tuple[re.Pattern[str], bool]:
    """The message as it reads in a language; a short one is a cell or a term of its own, never part of a sentence."""
    with override(language):
        text = translate(message)
    parts = re.split(r"(?:%\((?=\w+\)s)|\{(?=\w+\}))(\w+)(?:\)s|\})", text.replace("%%", "%"))
    pattern = "".join(
        f"(?P<{part}>{NUMBER if part in NUMBERS else '.+?'})" if place % 2 else re.escape(part)
        for place, part in enumerate(parts)
    )
    is_sentence = len(message) > 40 or len(parts) > 1
    return re.compile(
        pattern + ("" if text[-1] in ".。:：”" or not is_sentence else r"(?=[;；,，]|$)")
    ), is_sentence


NUMBER = r"[\d,]+"
NUMBERS = {
    *("n", "decisions", "annotators", "adjudicators", "annotations", "items"),
    *("fold", "held", "prompts", "learned", "k", "drawn", "known", "moving", "all", "labels", "test"),
}


@cache
def _catalog() -> Mapping[tuple[str | None, str], str]:
    """Chinese by context and message; of two forms either stands for both."""
    from babel.messages.pofile import read_po

    from tests.support import FIXTURES

    texts: dict[tuple[str | None, str], str] = {}
    with (FIXTURES.parent / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po").open("rb") as file:
        for entry in read_po(file, locale="zh_Hans"):
            ids = entry.id if isinstance(entry.id, (list, tuple)) else (entry.id,)
            strings = entry.string if isinstance(entry.string, (list, tuple)) else (entry.string,)
            for message in ids:
                texts.setdefault((None, message), str(strings[0] or message))
    return texts


def translate(message: str) -> str:
    if gettext("Agreement") == "Agreement":
        return message
    return _catalog().get((None, message), message)
