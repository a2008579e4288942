"""Every message of a datasheet and of an annotation report that states how something was done, with the stored fact
that it needs; and the messages that state no such thing. A message that stands in neither is a failing test.

``RETIRED`` are the sentences that were said before, with the facts that they would have needed: with them
``tests.performance.document_claims`` counts on older code what it counts on today's.
"""
# ruff: noqa: E501 (ruff itself puts a rule on the line of its sentence)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tests.documents.facts import StoredFacts

Holds: TypeAlias = Callable[[StoredFacts, Mapping[str, str]], bool]
"""Whether the facts bear the sentence, whose placeholders stand for these texts."""
SHEET = (
    "templates/annotation/releases/datasheet_sections.txt",
    "templates/annotation/releases/datasheet_markdown.txt",
    "templates/annotation/releases/_same_text.txt",
    "templates/annotation/releases/_import_protocol.txt",
    "templates/annotation/agreement/_weighing.txt",
    "annotation/services/exports/datasheet.py",
)
REPORT = (
    "templates/annotation/reports/_annotators.txt",
    "templates/annotation/reports/_coverage.txt",
    "templates/annotation/reports/_import_protocol.txt",
    "templates/annotation/reports/_policy.txt",
    "templates/annotation/agreement/_weighing.txt",
    "templates/annotation/reports/notes.txt",
    "templates/annotation/reports/page.html",
    "templates/annotation/reports/sections.txt",
    "annotation/views/reports.py",
)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def _has_source(source: str) -> Holds:
    return lambda facts, values: facts.sources.get(source, 0) == number(values["n"]) > 0


def _is_imported(facts: StoredFacts, _values: Mapping[str, str]) -> bool:
    return facts.imported + facts.imported_decisions > 0


def _has_words(facts: StoredFacts, _values: Mapping[str, str]) -> bool:
    return bool(facts.words)


def _lacks_words(facts: StoredFacts, _values: Mapping[str, str]) -> bool:
    return facts.files_without_words > 0


def _was_given_there(facts: StoredFacts, values: Mapping[str, str]) -> bool:
    return number(values["n"]) in facts.given_there


def _knows_nothing(facts: StoredFacts, _values: Mapping[str, str]) -> bool:
    return not facts.knows_imports


def _is_release(facts: StoredFacts, _values: Mapping[str, str]) -> bool:
    return facts.is_release


def _came_by(*channels: str) -> Holds:
    return lambda facts, _values: (
        bool(facts.channels & set(channels))
        or ("import" in channels and facts.imported + facts.imported_decisions > 0)
    )


def _has_so_many_labels(facts: StoredFacts, values: Mapping[str, str]) -> bool:
    return 0 <= number(values["n"]) * number(values["items"]) <= facts.given + facts.imported


def _is_paired(facts: StoredFacts, _values: Mapping[str, str]) -> bool:
    return facts.given > 0


CLAIMS: dict[str, Holds] = {
    # The datasheet.
    "Whether annotations were imported, and how people worked, is not recorded.": _knows_nothing,
    "Annotations given here, on the page or with a token: %(n)s; people who gave them: %(people)s.": lambda facts, values: (
        facts.given == number(values["n"]) and values["people"] in {str(facts.people_given), "-"}
    ),
    "The items that Assay showed to those who annotated here named neither the model nor the other annotators, and"
    " showed none of their labels.": lambda facts, _values: facts.given > 0,
    "Disputes decided here: %(n)s; adjudicators: %(people)s. Assay showed them the labels without the names of those"
    " who gave them.": lambda facts, values: facts.decided == number(values["n"]),
    "Imported from files: %(n)s of the annotations, %(decisions)s of the decisions of disputes. They were made"
    " elsewhere. What is recorded of how they were made follows; each name in a file counts as one person.": lambda facts, values: (
        (facts.imported, facts.imported_decisions) == (number(values["n"]), number(values["decisions"]))
    ),
    "Labels that rest on one annotation each: %(n)s.": _has_source("single"),
    "Labels that are the one value of all annotations of their response: %(n)s.": _has_source("unanimous"),
    "Labels whose annotations differ by no more than the tolerance: %(n)s; each is the lower median.": _has_source(
        "within_tolerance"
    ),
    "Labels that an adjudicator decided, under another name than the annotators of the response: %(n)s.": _has_source(
        "adjudicated"
    ),
    "Labels that more than half of the annotations of their response have: %(n)s.": _has_source("majority"),
    "Labels that are the lower median of differing annotations: %(n)s.": _has_source("median"),
    "Labels that a model of all annotations of their batch held for probable enough: %(n)s.": _has_source(
        "aggregated"
    ),
    "Labels that an expert gave, under another name than the annotators of the response: %(n)s.": _has_source(
        "expert"
    ),
    "the majority of the annotators": lambda facts, _values: facts.sources.get("majority", 0) > 0,
    "the median of the annotators": lambda facts, _values: facts.sources.get("median", 0) > 0,
    "a model of all labels": lambda facts, _values: facts.sources.get("aggregated", 0) > 0,
    "each response open to anybody's annotation until the collection ended, at least %(n)s": lambda facts, values: (
        facts.overlap <= number(values["n"])
    ),
    "%(n)s annotations wanted for each response to a share of %(share)s of the prompts, and one for the others": lambda facts, values: (
        facts.overlap <= number(values["n"])
    ),
    "Where annotations differed by more than the tolerance, no majority of them settled a label.": lambda facts, _values: (
        set(facts.sources) <= {"single", "unanimous", "within_tolerance", "adjudicated"}
        and facts.sources.get("adjudicated", 0) > 0
    ),
    "Annotators: %(annotators)s; adjudicators: %(adjudicators)s; annotations submitted: %(annotations)s.": lambda facts, values: (
        facts.is_given_whole
        and (facts.given, facts.people_given) == (number(values["annotations"]), number(values["annotators"]))
    ),
    "Annotators: %(annotators)s; adjudicators: %(adjudicators)s; annotations: %(annotations)s. In this each name in an"
    " imported file counts as one person; whether it is one is not recorded.": lambda facts, _values: (
        not facts.is_given_whole
    ),
    "Which languages they read is not recorded.": lambda facts, _values: not facts.languages,
    "Languages of the annotators": lambda facts, _values: facts.languages,
    "Labels decided by an adjudicator: %(n)s (%(share)s%%).": lambda facts, values: (
        facts.sources.get("adjudicated", 0) == number(values["n"])
    ),
    "Reasons of the adjudicators": lambda facts, _values: facts.sources.get("adjudicated", 0) > 0,
    "Why the annotators differed": lambda facts, _values: facts.sources.get("adjudicated", 0) > 0,
    "Gold questions that annotators answered and that are left out: %(n)s.": lambda facts, values: (
        facts.gold_checks == number(values["n"]) > 0
    ),
    "Withdrawn tasks, which are left out: %(n)s.": lambda facts, values: (
        facts.states.get("withdrawn", 0) == number(values["n"]) > 0
    ),
    "Tasks that were not settled when the release was cut: %(n)s. Their labels that were not settled are left out.": lambda facts, values: (
        facts.unsettled == number(values["n"]) > 0
    ),
    "Cut on %(day)s by Assay %(version)s. It is never changed and never deleted: mistakes are corrected in a later release"
    " that supersedes it and says so, with the difference.": _is_release,
    "It supersedes %(name)s (sha256 %(sha256)s).": _is_release,
    "%(files)s is a bundle of another site. By its manifest %(n)s annotations of the batch %(batch)s were submitted"
    " there, on its page or with a token, and not imported.": _was_given_there,
    "Of the labels of %(files)s (batch %(batch)s), which came in %(through)s, whoever first imported them wrote:": _has_words,
    "Of the labels of %(files)s (batch %(batch)s) whoever imported them wrote:": _has_words,
    "How the labels of %(files)s (batch %(batch)s), which came in %(through)s, were made is not recorded: who judged,"
    " whether they knew the model or each other's labels, and in which tool.": _lacks_words,
    "How the labels of %(files)s (batch %(batch)s) were made is not recorded: who judged, whether they knew the model or"
    " each other's labels, and in which tool.": _lacks_words,
    "one annotator": lambda facts, _values: facts.sources.get("single", 0) > 0,
    "all annotators alike": lambda facts, _values: facts.sources.get("unanimous", 0) > 0,
    "annotators within the tolerance: the lower median": lambda facts, _values: (
        facts.sources.get("within_tolerance", 0) > 0
    ),
    "anybody of the pool": _is_paired,
    "named pairs": _is_paired,
    "every pair as often": _is_paired,
    # The report.
    "whether annotations were imported, and how people worked, is not recorded": _knows_nothing,
    "%(items)s with %(n)s label": _has_so_many_labels,
    "%(items)s with %(n)s labels": _has_so_many_labels,
    "waiting for labels: %(n)s": lambda facts, values: facts.states.get("open", 0) == number(values["n"]) > 0,
    "waiting for a decision: %(n)s": lambda facts, values: (
        facts.states.get("disputed", 0) == number(values["n"]) > 0
    ),
    "annotations given here: %(n)s; the items that Assay showed named neither the model nor the other annotators, and"
    " showed none of their labels": lambda facts, values: (
        0 < number(values["n"]) <= facts.given and (facts.batches > 1 or number(values["n"]) == facts.given)
    ),
    "imported, and made elsewhere: annotations %(n)s, decisions %(decisions)s": lambda facts, values: (
        0 < number(values["n"]) + number(values["decisions"]) <= facts.imported + facts.imported_decisions
    ),
    "disputed responses that an adjudicator decided, under another name than their annotators: %(n)s": lambda facts, values: (
        0 < number(values["n"]) <= facts.states.get("adjudicated", 0)
    ),
    "disputed responses without a decision: %(n)s": lambda facts, values: (
        0 < number(values["n"]) <= facts.states.get("disputed", 0)
    ),
    "%(files)s, a bundle of another site: by its manifest %(n)s annotations of the batch %(batch)s were submitted"
    " there, on its page or with a token, and not imported": _was_given_there,
    "%(files)s (batch %(batch)s), which came in %(through)s, in the words of whoever first imported it: “%(words)s”": lambda facts, values: (
        values["words"] in facts.words
    ),
    "%(files)s (batch %(batch)s), in the words of whoever imported it: “%(words)s”": lambda facts, values: (
        values["words"] in facts.words
    ),
    "%(files)s (batch %(batch)s): who judged, whether they knew the model or each other's labels, and in which tool, is"
    " not recorded": _lacks_words,
    "pairing by the policy of the batch: %(pairing)s": _is_paired,
    "the policy asked for a qualification of gold questions before (%(by)s, at least %(threshold)s)": lambda facts, _values: (
        facts.qualifying and facts.given > 0
    ),
    "a manager let %(n)s person in without passing it": lambda facts, values: (
        facts.waived == number(values["n"])
    ),
    "a manager let %(n)s people in without passing it": lambda facts, values: (
        facts.waived == number(values["n"])
    ),
    "%(share)s of the items given were to be gold checks": lambda facts, _values: facts.check_share > 0,
    "%(share)s of the decisions were to come back for repeat adjudication": lambda facts, _values: (
        facts.repeat_share > 0
    ),
    "%(share)s of the disputes were to be decided by a second adjudicator as well": lambda facts, _values: (
        facts.second_share > 0
    ),
    "submitted here from %(first)s to %(last)s": lambda facts, _values: facts.given + facts.decided > 0,
    "labels within %(n)s of each other settled as their lower median": lambda facts, _values: (
        facts.tolerance > 0 and (facts.overlap > 1 or facts.batches > 1)
    ),
    "Imported labels": _is_imported,
    "%(file)s (sha256 %(sha256)s): %(annotations)s of the annotations, %(decisions)s of the decisions": _is_imported,
    "Protocol of the imported labels": _is_imported,
    "Count of people": lambda facts, _values: not facts.is_given_whole,
    "Each name in an imported file counts as one person; whether it is one is not recorded.": lambda facts, _values: (
        not facts.is_given_whole
    ),
    "Languages they read": lambda facts, _values: facts.languages,
    "Median time of an annotation given here": lambda facts, _values: facts.given > 0,
    "Reasons given by the adjudicators": lambda facts, _values: facts.reasons,
    "Changed on seeing the labels": lambda facts, _values: facts.verdicts > 0,
    "%(part)s of %(n)s whose adjudicator had given a blind verdict before, %(share)s": lambda facts, values: (
        facts.verdicts == number(values["n"])
    ),
}
"""What states how something was done, and when it may be said."""

RULES = frozenset(
    {
        "These figures are of the labelled responses as they are, not weighed by the chance of selection.",
        (
            "Responses were selected with chances that differ: each counts by one over its chance, so that the"
            " figures stand for all responses."
        ),
        (
            "Responses were selected with chances that differ: each counts by one over its chance, so that the"
            " figures stand for all responses. Rows of which the chance is not known (%(reasons)s) are of the"
            " labelled responses as they are."
        ),
        (
            "These figures are of the labelled responses as they are, not weighed: the chance of selection is"
            " not known (%(reasons)s)."
        ),
        (
            "Between annotators, over the tasks that had all their annotations; in brackets the 95%% interval of"
            " a bootstrap over tasks. “-” is undefined, as where all labels are the same."
        ),
        (
            "Between annotators, over the responses with two labels or more; in brackets the 95%% interval"
            " over prompts. “-” is undefined, as where all labels are the same."
        ),
        (
            "A unit is one criterion of one response with two labels or more. Intervals are 95%%; those of"
            " shares are Wilson's. A dash is undefined."
        ),
        (
            "Between annotators, over the tasks that had all their annotations; in brackets the 95%% interval"
            " over prompts. “-” is undefined, as where all labels are the same."
        ),
        (
            "Intervals of agreement are bootstrap intervals over units (BCa, 1,000 resamples), as the release"
            " recorded them; where several responses answer one prompt they are too narrow."
        ),
        (
            "Intervals of agreement are over prompts, since responses to one prompt are alike: of percent"
            " agreement Wilson's at the number of units divided by the design effect; of the others Student's t"
            " from leaving prompts out, where there are at least ten prompts and five disputed units."
        ),
        "Texts stand as Assay took them in. A response is known by the sha256 of its text in Unicode's form NFC.",
        (
            "A response that was settled alike in two tasks is taken once; settled differently, it makes Assay refuse the"
            " release."
        ),
        (
            "Whether a prompt is for training, validation or testing follows from the name of its dataset and from its id"
            " alone, so it is the same in every release."
        ),
        (
            "It is known by its sha256, %(sha256)s, over a canonical form of its labels; the same labels give the same hash"
            " on any machine. The manifest beside this sheet holds all of its numbers."
        ),
        (
            "Assay writes nobody's name into this sheet; names of files and batches, and what is quoted, stand as they were"
            " written."
        ),
        "Alpha is Krippendorff's at the level of the scale; several criteria pooled are nominal.",
    }
)
"""What the code does of every release alike, whatever the labels came from; tests of their own hold it."""

RETIRED: dict[str, Holds] = {
    "It holds what people judged of the responses of language models under %(guidelines)s.": lambda facts, _values: (
        facts.is_given_whole
    ),
    "Each response was handed to the number of annotators that its batch asks for. They worked without knowing whose"
    " response it was, who else judged it and what the others said.": lambda facts, _values: (
        facts.is_given_whole and facts.is_complete
    ),
    "Where all annotators of a response agreed, or differed by no more than the tolerance, the label was settled;"
    " everything else went to an adjudicator who is none of them. No majority settles anything.": lambda facts, _values: (
        facts.overlap > 1
        and facts.decided > 0
        and not facts.imported_decisions
        and not facts.states.get("disputed")
    ),
    "Annotators: %(annotators)s; adjudicators: %(adjudicators)s; annotations submitted: %(annotations)s. Nobody is"
    " named here, nor in any file unless whoever exports it asks for names and may.": lambda facts, _values: (
        facts.is_given_whole
    ),
    "None of them has said which languages they read.": lambda facts, _values: facts.is_given_whole,
    "Texts were not changed. A response is known by the sha256 of its text in Unicode's form NFC. Gold questions mixed"
    " in to check the annotators, withdrawn tasks and labels that were not settled yet are left out. Where one response"
    " was settled alike in two tasks it is taken once; settled differently, the release would have been refused.": lambda facts, _values: (
        facts.gold_checks > 0 and facts.states.get("withdrawn", 0) > 0 and facts.unsettled > 0
    ),
    "It is made for training and testing programs that judge responses as these people did, and for comparing models on"
    " these prompts. Do not train on the test split, nor on any prompt that another release puts there: they are the"
    " same.": lambda facts, _values: facts.is_given_whole,
    "%(n)s annotator judged each response": lambda facts, _values: facts.is_given_whole and facts.is_complete,
    "%(n)s annotators judged each response, not knowing of each other or of the model": lambda facts, _values: (
        facts.is_given_whole and facts.is_complete
    ),
    "%(n)s annotator judged each response elsewhere, and how is not recorded: all %(imported)s annotations were"
    " imported": lambda facts, _values: facts.is_complete,
    "%(n)s annotators judged each response elsewhere, and how is not recorded: all %(imported)s annotations were"
    " imported": lambda facts, _values: facts.is_complete,
    "%(n)s annotators judged each response; %(imported)s annotations were imported, and how they were made is not"
    " recorded; %(given)s were given here by annotators who did not know of each other or of the model": lambda facts, _values: (
        facts.is_complete
    ),
    "where they differed a third person decided": lambda facts, _values: (
        facts.decided > 0 and not facts.imported_decisions and not facts.states.get("disputed")
    ),
    "before, a qualification of gold questions had to be passed (%(by)s, at least %(threshold)s)": lambda facts, _values: (
        facts.qualifying and not facts.waived
    ),
    "who got what: %(pairing)s": lambda facts, _values: facts.is_given_whole,
}
