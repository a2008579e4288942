"""Personal data in the records of a file on its way in: counted, shown in a preview, or masked. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TypeVar

from annotation.core.errors import N_
from annotation.domain.formats.base import PromptRecord, PromptRef, ResponseRecord
from annotation.domain.texts.personal_data import (
    CARD,
    EMAIL,
    IBAN,
    IDENTITY,
    IP,
    MASK,
    PHONE,
    DatumInContext,
    mask_texts,
    show_context,
)

T = TypeVar("T")
MAX_EXAMPLES = 5
"""Of each kind; they are of a preview and are kept nowhere."""
FOUND_NOTES = {
    EMAIL: N_("E-mail addresses found: {number}."),
    PHONE: N_("Phone numbers found: {number}."),
    IDENTITY: N_("Resident identity numbers found: {number}."),
    CARD: N_("Bank card numbers found: {number}."),
    IBAN: N_("Bank account numbers (IBAN) found: {number}."),
    IP: N_("IP addresses found: {number}."),
}
MASKED_NOTES = {
    EMAIL: N_("E-mail addresses masked: {number}."),
    PHONE: N_("Phone numbers masked: {number}."),
    IDENTITY: N_("Resident identity numbers masked: {number}."),
    CARD: N_("Bank card numbers masked: {number}."),
    IBAN: N_("Bank account numbers (IBAN) masked: {number}."),
    IP: N_("IP addresses masked: {number}."),
}


class PersonalDataScan:
    """Of one file. ``way`` is ``find`` or ``mask``; ``counts`` is by kind."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.counts: Counter[str] = Counter()
        self.examples: list[DatumInContext] = []
        self._example_counts: Counter[str] = Counter()

    @property
    def notes(self) -> dict[str, int]:
        """What the report of the import says: templates with ``{number}``."""
        templates = MASKED_NOTES if self.way == MASK else FOUND_NOTES
        return {templates[kind]: self.counts[kind] for kind in templates if self.counts[kind]}

    def scan(self, record: T) -> T:
        """The record as it is to be stored. Labels of people stay as they are: their marks are places in a text."""
        scanned: object = record
        if isinstance(record, PromptRecord):
            scanned = self._scan_prompt(record)
        elif isinstance(record, ResponseRecord):
            scanned = self._scan_response(record)
        return record if self.way != MASK else scanned  # type: ignore[return-value]

    def _scan_prompt(self, record: PromptRecord) -> PromptRecord:
        return replace(record, ref=self._scan_ref(record.ref, record.line, record.language))

    def _scan_ref(self, ref: PromptRef, line: int, language: str) -> PromptRef:
        return replace(ref, text=self._scan_texts([ref.text], line, language)[0])

    def _scan_response(self, record: ResponseRecord) -> ResponseRecord:
        prompt, language = record.prompt, "" if record.prompt is None else record.prompt.language
        if prompt is None:
            ref = self._scan_ref(record.ref, record.line, language)
        elif prompt.ref == record.ref:
            prompt = self._scan_prompt(prompt)
            ref = prompt.ref
        else:
            prompt, ref = self._scan_prompt(prompt), self._scan_ref(record.ref, record.line, language)
        text, *turns = self._scan_texts(
            [record.text, *(turn["text"] for turn in record.turns)], record.line, language
        )
        masked = [
            {**turn, "text": masked_text} for turn, masked_text in zip(record.turns, turns, strict=True)
        ]
        return replace(record, ref=ref, prompt=prompt, text=text, turns=tuple(masked))

    def _scan_texts(self, texts: list[str], line: int, language: str) -> list[str]:
        masked, all_data = mask_texts(texts, language)
        for text, data in zip(texts, all_data, strict=True):
            self.counts.update(datum.kind for datum in data)
            for example in show_context(text, line, data):
                if self._example_counts[example.kind] < MAX_EXAMPLES:
                    self._example_counts[example.kind] += 1
                    self.examples.append(example)
        return masked
