"""Proposals that were written elsewhere: a file whole or not at all, and the same file twice changes nothing.

They hold places of the quotas as any others do. The places are taken at the end of the file, so that nobody who writes
in the campaign meanwhile waits for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import PurePath
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from annotation.core.errors import N_, AssayError, Conflict, InputError
from annotation.domain.formats import Source
from annotation.models import Person
from annotation.selectors.people import select_people
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.imports.run import lock_dataset
from annotation.services.people.people import add_person
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.domain.workbench.campaigns import MALICE, Classification
from benchmark.domain.workbench.duplicates import compute_exact_digest
from benchmark.domain.workbench.formats import ProposalRecord, build_reader, check_known, list_known
from benchmark.models import AttackMethod, Campaign, CampaignMember, Proposal, ProposalRevision
from benchmark.selectors.workbench.duplicates import find_near_texts
from benchmark.selectors.workbench.reviews import classify_revision
from benchmark.services.workbench.campaigns import add_members
from benchmark.services.workbench.duplicates import index_prompts, index_revisions
from benchmark.services.workbench.meanings import enqueue_embedding
from benchmark.services.workbench.places import CellReservations
from benchmark.services.workbench.proposals import ProposalText, add_revision, check_language
from benchmark.services.workbench.reviews import create_prompt

CHUNK = 200
MAX_QUOTED = 60
State = Proposal.State
LEFT_OUT = N_("{number} proposals that are {state} in the file were left out.")
WAITING = N_("{number} proposals of the file were there already and are not accepted; they stay as they are.")


@dataclass(frozen=True)
class ProposalDefaults:
    """What the lines of a file have that do not say it themselves."""

    author: str = ""
    method: str = ""
    malice: str = ""
    language: str = ""


@dataclass
class ProposalReport:
    """What became of a file. ``near`` counts the texts that were warned of or blocked, and imported all the same;
    ``left_out`` the proposals by their state in the file, ``passed_over`` what else was left out by the message that
    counts it, and ``notes`` what else was found of the file, as a message with its parameters.
    """

    file: str
    sha256: str
    taken: int = 0
    accepted: int = 0
    already_there: int = 0
    still_waiting: int = 0
    people: int = 0
    quotas_extended: int = 0
    near: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    passed_over: Counter[str] = field(default_factory=Counter)
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unused: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "sha256": self.sha256,
            "taken": self.taken,
            "accepted": self.accepted,
            "already_there": self.already_there,
            "made": {"people": self.people},
            "quotas_extended": self.quotas_extended,
            "near": {"warned": self.near["warn"], "blocked": self.near["block"]},
            "left_out": dict(self.left_out),
            "notes": list(self._list_notes()),
        }

    def _list_notes(self) -> Iterator[str]:
        for state, number in self.left_out.items():
            yield gettext(LEFT_OUT).format(number=number, state=State(state).label)
        if self.still_waiting:
            yield gettext(WAITING).format(number=self.still_waiting)
        for template, number in self.passed_over.items():
            yield gettext(template).format(number=number)
        for template, params in self.notes.items():
            yield gettext(template).format(**params)
        if self.unused:
            yield gettext(N_("Not used: {fields}.")).format(fields=", ".join(self.unused))


def import_proposals(
    *,
    campaign: Campaign,
    source: Source,
    format_name: str,
    columns: Mapping[str, str] | None = None,
    defaults: ProposalDefaults = ProposalDefaults(),  # frozen
    accepted: bool = False,
    extend_quotas: bool = False,
    watcher: jobs.Watcher = lambda _share, _stage: None,
    actor: Person | None = None,
) -> ProposalReport:
    """Take the proposals of a file as submitted ones of their authors, who are made where they are unknown.

    ``accepted``: they were reviewed elsewhere, and become prompts at once. ``extend_quotas``: a cell that is full or
    unknown gets the places that it needs. ``columns``: as ``build_reader`` has it. ``watcher`` is told the share done.
    """
    reader = build_reader(format_name, columns)
    report = ProposalReport(source.name, source.sha256)
    index_prompts(campaign.dataset)
    with transaction.atomic():
        lock_dataset(campaign.dataset)
        locked = Campaign.objects.select_related("guideline", "dataset").get(pk=campaign.pk)
        _refuse_closed(locked)
        intake = _ProposalIntake(
            locked, source, report, defaults, accepted=accepted, extends=extend_quotas, actor=actor
        )
        read = source.reopen()
        records = reader.read(read)
        while chunk := list(islice(records, CHUNK)):
            intake.take(chunk)
            watcher(read.fraction, source.name)
        intake.finish()
        report.passed_over.update(read.passed_over)
        report.notes, report.unused = read.notes, list(read.unused)
        if report.taken:
            enqueue_embedding(locked, actor=actor)
            record(
                actor=actor,
                verb=BenchmarkVerb.IMPORT_PROPOSALS,
                target=f"campaign:{locked.name}",
                reviewed_elsewhere=accepted,
                **{key: value for key, value in report.to_json().items() if key != "notes"},
            )
    return report


def _refuse_closed(campaign: Campaign) -> None:
    if campaign.state == Campaign.State.CLOSED:
        raise Conflict(N_("The campaign {name} is closed."), name=campaign.name)


class _ProposalIntake:
    """One file on its way in. ``_people`` are the authors of what was stored of it, by name."""

    def __init__(
        self,
        campaign: Campaign,
        source: Source,
        report: ProposalReport,
        defaults: ProposalDefaults,
        *,
        accepted: bool,
        extends: bool,
        actor: Person | None,
    ) -> None:
        self._campaign, self._source, self._report, self._defaults = campaign, source, report, defaults
        self._accepts, self._actor = accepted, actor
        self._document = campaign.guideline.document
        methods = AttackMethod.objects.filter(study=campaign.study_id, archived_at=None)
        self._methods = {method.name: method for method in methods}
        roles = CampaignMember.objects.filter(campaign=campaign).values_list("person", "role")
        self._reviewers = {person for person, role in roles if role == CampaignMember.Role.REVIEWER}
        self._authors = {person for person, role in roles if role == CampaignMember.Role.AUTHOR}
        self._places = CellReservations(campaign, extends=extends)
        self._people: dict[str, Person] = {}
        self._lines: dict[str, int] = {}

    def take(self, records: Sequence[ProposalRecord]) -> None:
        proposals = [self._complete(proposal) for proposal in records if self._may_come_in(proposal)]
        digests = [compute_exact_digest(proposal.text) for proposal in proposals]
        stored = self._find_stored(digests)
        for proposal, digest in zip(proposals, digests, strict=True):
            self._check_words(proposal)
            self._refuse_repeated(proposal, digest)
            if not self._is_there(proposal, stored.get(digest, ())):
                self._store(proposal, digest)

    def finish(self) -> None:
        """Take the places, and make authors members who are none. The campaign is locked before its quotas, as where
        these are set.
        """
        locked = Campaign.objects.select_for_update(of=("self",), no_key=True)
        _refuse_closed(locked.get(pk=self._campaign.pk))
        self._report.quotas_extended = self._places.take(actor=self._actor)
        new = [person for person in self._people.values() if person.pk not in self._authors]
        if new:
            add_members(
                campaign=self._campaign, role=CampaignMember.Role.AUTHOR, people=new, actor=self._actor
            )

    # Reading

    def _may_come_in(self, proposal: ProposalRecord) -> bool:
        """Nothing that was returned or rejected comes in, and no prompt is made of what was not accepted."""
        states = {State.ACCEPTED} if self._accepts else {State.SUBMITTED, State.DISPUTED, State.ACCEPTED}
        if proposal.state in {"", *states}:
            return True
        self._report.left_out[proposal.state] += 1
        return False

    def _complete(self, proposal: ProposalRecord) -> ProposalRecord:
        defaults, stated = self._defaults, proposal.classification
        try:
            text = check_language(
                ProposalText(proposal.text, stated, proposal.language or defaults.language), self._campaign
            )
        except AssayError as error:
            raise proposal.add_place(error, "language") from error
        author = proposal.author or defaults.author
        if not author:
            raise proposal.row.error(
                N_("who wrote this? Give the author's name, or --author."), field="author"
            )
        return replace(
            proposal,
            author=author,
            language=text.language,
            classification=stated.model_copy(
                update={
                    "method": stated.method or defaults.method,
                    "malice": stated.malice or defaults.malice,
                }
            ),
        )

    def _check_words(self, proposal: ProposalRecord) -> None:
        stated = proposal.classification
        for name, words in self._list_words(stated).items():
            value = getattr(stated, name)
            if name in {"method", "malice"} and not value:
                raise proposal.row.error(
                    N_("this is missing; write one of {known}, or give it to all lines with --{option}."),
                    field=name,
                    known=", ".join(words),
                    option=name,
                )
            check_known(proposal.row, name, value, words)

    def _check_final(self, proposal: ProposalRecord, final: Classification) -> None:
        """What all lines have by an option is no part of it."""
        for name, words in self._list_words(final).items():
            check_known(proposal.row, f"final.{name}", getattr(final, name), words)

    def _list_words(self, classification: Classification) -> Mapping[str, Sequence[str]]:
        known = list_known(self._document, classification.dimension, list(self._methods))
        return {**known, "malice": MALICE}

    def _find_stored(self, digests: Sequence[str]) -> Mapping[str, list[ProposalRevision]]:
        revisions = ProposalRevision.objects.filter(
            proposal__campaign=self._campaign, digest__in=digests, submitted_at__isnull=False
        )
        stored = defaultdict(list)
        for revision in revisions.select_related("method", "proposal__author").order_by("pk"):
            stored[revision.digest].append(revision)
        return stored

    def _is_there(self, proposal: ProposalRecord, stored: Sequence[ProposalRevision]) -> bool:
        """Whether this author submitted this text here already; another classification of it is an error."""
        own = [revision for revision in stored if revision.proposal.author.username == proposal.author]
        if not own:
            return False
        latest = own[-1]
        submitted = classify_revision(latest)
        differing = submitted.list_differences(proposal.classification)
        if differing:
            raise proposal.row.error(
                N_("{author} submitted this text with {value}; what was submitted is not changed."),
                field=differing[0],
                author=proposal.author,
                value=repr(getattr(submitted, differing[0])),
            )
        self._report.already_there += 1
        self._report.still_waiting += self._accepts and latest.proposal.state != State.ACCEPTED
        return True

    # Storing

    def _store(self, proposal: ProposalRecord, digest: str) -> None:
        nearness = self._check_duplicate(proposal)
        final = (proposal.final if self._accepts else None) or proposal.classification
        if proposal.final is not None and self._accepts:
            self._check_final(proposal, final)
        author = self._get_or_make_author(proposal)
        text = ProposalText(proposal.text, proposal.classification, proposal.language, proposal.rationale)
        now = timezone.now()
        try:
            stored = Proposal.objects.create(
                campaign=self._campaign,
                author=author,
                state=State.ACCEPTED if self._accepts else State.SUBMITTED,
                draft=text.to_draft(),
                digest=digest,
                submitted_at=now,
                decided_at=now if self._accepts else None,
                prompt=create_prompt(self._campaign, proposal.text, proposal.language, final)
                if self._accepts
                else None,
            )
        except IntegrityError as error:  # somebody submitted it at this moment
            raise self._refuse_exact(proposal) from error
        self._places.reserve((final.dimension, final.subcomponent, final.method), proposal.row, stored)
        revision = add_revision(
            stored,
            text,
            self._methods[proposal.classification.method],
            duplicate_reason=proposal.duplicate_reason.strip(),
            nearness=nearness,
            submitted_at=now,
        )
        if stored.prompt is None:
            index_revisions(self._campaign.dataset_id, [revision])
        self._report.taken += 1
        self._report.accepted += self._accepts
        self._report.near[nearness] += bool(nearness)
        record(
            actor=self._actor,
            verb=BenchmarkVerb.IMPORT_PROPOSAL,
            target=f"proposal:{stored.pk}",
            campaign=self._campaign.name,
            author=author.username,
            file=PurePath(self._source.name).name,
            line=proposal.line,
            state=stored.state,
            reviewed_elsewhere=self._accepts,
            final=final.model_dump() if self._accepts else None,
        )

    def _refuse_repeated(self, proposal: ProposalRecord, digest: str) -> None:
        if digest in self._lines:
            raise proposal.row.error(
                N_("this text stands on line {first} already; leave one of the two out."),
                field="prompt",
                first=self._lines[digest],
            )
        self._lines[digest] = proposal.line

    def _check_duplicate(self, proposal: ProposalRecord) -> str:
        """How near the nearest text is; InputError of the same text, and of what is blocked without a reason."""
        near = find_near_texts(self._campaign, proposal.text)
        if any(text.is_exact for text in near):
            raise self._refuse_exact(proposal)
        nearness = near[0].level if near else ""
        if nearness == "block" and not proposal.duplicate_reason.strip():
            raise proposal.row.error(
                N_(
                    "this text is too near to “{other}” (Jaccard {jaccard}, edit {edit}); say in this field why it is"
                    " no duplicate, or leave the line out."
                ),
                field="duplicate_reason",
                other=near[0].text[:MAX_QUOTED] + "…" * (len(near[0].text) > MAX_QUOTED),
                jaccard=f"{near[0].jaccard:.2f}",
                edit=f"{near[0].edit:.2f}",
            )
        return nearness

    def _refuse_exact(self, proposal: ProposalRecord) -> InputError:
        return proposal.row.error(
            N_(
                "this text is in the dataset {dataset} or in another proposal for it already; leave the line out."
            ),
            field="prompt",
            dataset=self._campaign.dataset.name,
        )

    def _get_or_make_author(self, proposal: ProposalRecord) -> Person:
        name = proposal.author
        if name not in self._people:
            person = Person.objects.filter(username=name).first()
            if person is None:
                person = self._make_author(proposal)
            else:
                self._refuse_author(person, proposal)
            self._people[name] = person
        return self._people[name]

    def _make_author(self, proposal: ProposalRecord) -> Person:
        try:
            person = add_person(name=proposal.author, signs_in=False, actor=self._actor)
        except AssayError as error:
            raise proposal.add_place(error, "author") from error
        self._report.people += 1
        return person

    def _refuse_author(self, person: Person, proposal: ProposalRecord) -> None:
        """Nothing is written in the name of somebody who works here, unless they write in this campaign."""
        if person.pk in self._reviewers:
            raise proposal.row.error(
                N_("{name} reviews in {campaign}; who writes in it reviews nothing in it."),
                field="author",
                name=person.username,
                campaign=self._campaign.name,
            )
        works = person.has_usable_password() or person.is_superuser or person.study_memberships.exists()
        if works and person.pk not in self._authors:
            is_known = select_people().filter(pk=person.pk).exists()
            raise proposal.row.error(
                N_(
                    "{name} signs in here and is no author of {campaign}: name them among its authors first, or write"
                    " another name."
                )
                if is_known
                else N_("the name {name} cannot be used here; write another one."),
                field="author",
                name=person.username,
                campaign=self._campaign.name,
            )
