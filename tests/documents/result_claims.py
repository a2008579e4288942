"""Every message of a scorer's card and of a board that states how something was done, with the stored fact that it
needs. What states no such thing is in ``result_plain.py``; a message that stands in neither is a failing test.

``RESULT_RETIRED`` are the sentences that were said before, as ``RETIRED`` of ``claims.py``.
"""
# ruff: noqa: E501 (ruff itself puts a rule on the line of its sentence)

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from annotation.models import Annotation, Job
from scoring.services.scorers.export import README
from tests.documents.claims import number
from tests.documents.messages import ROOT
from tests.documents.result_facts import ResultFacts

ResultHolds: TypeAlias = Callable[[ResultFacts, Mapping[str, str]], bool]

FOLDERS = (
    "templates/scoring/scorers",
    "templates/benchmark/leaderboards",
    "templates/benchmark/wording",
    "scoring/views/scorers",
    "benchmark/views/leaderboards",
)
"""Whatever is put there is searched."""
FILES = (
    "templates/annotation/releases/_selection.html",
    "templates/annotation/wording/selection_reason.txt",
    "templates/benchmark/estimates/_estimate_row.html",
    "templates/benchmark/sharing/shared.html",
    "templates/scoring/training/_advice.html",
    "templates/scoring/wording/gate.txt",
    "templates/scoring/wording/promotion.txt",
    "scoring/domain/calibration.py",
)
OTHER_PAGES = frozenset(
    {
        "scoring/views/scorers/actions.py",
        *(
            f"templates/benchmark/leaderboards/{name}.html"
            for name in ("new_run", "retrain", "retraining", "runs")
        ),
        *(f"templates/benchmark/wording/{name}.txt" for name in ("message", "work")),
    }
)
"""Forms and what acts answer: neither a card nor a board."""


def list_result_files() -> list[str]:
    paths = [path for folder in FOLDERS for path in Path(ROOT, folder).rglob("*") if path.is_file()]
    named = {path.relative_to(ROOT).as_posix() for path in paths if path.suffix in {".html", ".txt", ".py"}}
    return sorted((named | set(FILES)) - OTHER_PAGES)


def list_kept_sentences() -> set[str]:
    """The paragraphs of an exported scorer's README, and the sentences that a card keeps: English in every language."""
    worth = (ROOT / "templates/scoring/wording/worth.txt").read_text(encoding="utf-8")
    phrases = re.findall(r"\{% phrase %\}(.*?)\{% endphrase %\}", worth, re.DOTALL)
    kept_phrases = {
        " ".join(re.sub(r"\{%.*?%\}.*|\{\{.*", "", phrase, flags=re.DOTALL).split()) for phrase in phrases
    }
    readme = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    blocks = {" ".join(block.split()) for block in readme.split("\n\n")} - {"", "# {scorer}"}
    return kept_phrases | {
        sentence for block in blocks for sentence in re.split(r"(?<=\.) (?=[A-Z`])", block)
    }


STATES_MAKING = re.compile(
    r"fold|chance|annotat|adjudicat|people|person|blind|random|drawn|held|learn|seen|bootstrap|Student|Wilson|seed"
    r"|promot|import|correct|predict|compar|judge|select|calibrat|temperature|version|nobody",
    re.IGNORECASE,
)


def may_be_plain(message: str) -> bool:
    """Whether a message may stand in ``result_plain.py``: a short label, or one without a word of how things are made."""
    return len(message) <= LABEL or not STATES_MAKING.search(message)


LABEL = 40


def _is_labelled(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.annotators > 0


def _is_labelled_twice(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.annotators > 1


def _is_out_of_fold(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.folds > 1 and facts.has_whole_folds


def _is_left_out(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return "leave_one_model_out" in facts.scorer.evaluation


def _is_not_left_out(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return "leave_one_model_out" not in facts.scorer.evaluation


def _is_given_whole(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.is_given_whole


def _is_imported(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.batches.imported + facts.batches.imported_decisions > 0


def _has_held(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    """A release too small for a test split is learned whole."""
    held = number(values["held"])
    return (number(values["n"]), held) in {(facts.learnable, facts.held), (facts.responses, 0)}


def _has_test(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    kept_phrases = (number(values["learned"]), number(values["n"]), number(values["prompts"]))
    return kept_phrases == (facts.learnable, facts.held, facts.held_prompts)


def _has_no_test(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.held == 0 or facts.scorer.card["held_out"] == 0


def _has_responses(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    return (facts.responses, facts.prompts) == (number(values["n"]), number(values["prompts"]))


def _is_kind(kind: str) -> ResultHolds:
    return lambda facts, _values: facts.scorer.spec.kind == kind


def _is_kind_of_ensemble(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.scorer.spec.kind == "ensemble"


def _is_first(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    """Of its guideline no scorer was current before it was."""
    return facts.first_promotion is None or facts.first_promotion.scorer == facts.scorer


def _was_never_current(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return not facts.promotions


def _was_promoted_as(outcome: str) -> ResultHolds:
    return lambda facts, _values: any(
        promotion.verdict.get("outcome") == outcome for promotion in facts.promotions
    )


def _has_reason(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    return any(
        values["reason"].startswith(promotion.reason) for promotion in facts.promotions if promotion.reason
    )


def _is_useless(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.useless > 0


def _is_useful(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.useless == 0


def _is_compared(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.first_promotion is not None and facts.first_promotion.scorer != facts.scorer


def _lacks_gold(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    return facts.models_without_gold >= number(values["n"])


def _has_chosen_gold(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    return facts.models_partly_gold >= number(values.get("n", "1"))


def _has_predictions(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.predicted > 0


def _has_batch(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    return number(values["n"]) in (facts.gold_by_batch or {}).values()


def _has_unfinished_batch(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    """Of some batch the gold in the cells of a model and a dimension that lack some, and how much they lack."""
    return (number(values["n"]), number(values["k"])) in (facts.unfinished or ())


def _has_unfinished_whole(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    """The same of the whole batch."""
    return any(
        (facts.gold_by_batch or {}).get(batch) == number(values["n"]) and missing_count == number(values["k"])
        for batch, missing_count in (facts.lacking_by_batch or {}).items()
    )


def _lacks_gold_in_a_column(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    return facts.models_lacking_a_column >= number(values["n"])


def _has_gold_in_some_columns(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    return facts.models_lacking_a_column - facts.models_without_gold >= number(values["n"])


def _has_at_most_people(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    return 0 < number(values["n"]) <= facts.people


def _was_corrected(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    items = facts.scorer.release.items
    return Annotation.objects.filter(assignment__task__in=items.values("task"), revision__gt=1).exists()


def _lacks_some_gold(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    return facts.models_partly_gold + facts.models_without_gold >= number(values["n"])


def _has_fold(facts: ResultFacts, values: Mapping[str, str]) -> bool:
    return facts.fold is not None and number(values["fold"]) == facts.fold + 1


def _was_not_stored_so(_facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    """What no scorer and no board of today may say of itself: another version stored it otherwise."""
    return False


def _is_adapted(facts: ResultFacts, _values: Mapping[str, str]) -> bool:
    return facts.scorer.adapted_to is not None


SELECTION_KNOWN = "The chance of selection is known of"
RESULT_CLAIMS: dict[str, ResultHolds] = {
    # The scorer's card: how it was evaluated.
    "By prompt: %(n)s folds, all responses to a prompt in one of them, each predicted by the model that learned from the others.": lambda facts, values: (
        facts.folds == number(values["n"]) and facts.has_whole_folds
    ),
    "Model left out: each model predicted by what learned from the others.": _is_left_out,
    "Each model was predicted by what had learned from the others alone: accuracy %(value)s (%(interval)s).": _is_left_out,
    "Without a label of %(name)s its accuracy there is %(value)s (%(interval)s).": _is_left_out,
    "Not measured: train with one model left out to know what it is worth on a new one.": _is_not_left_out,
    "Not measured. Train it again and choose to leave one model out: then this page says what it is worth on a model without labels.": _is_not_left_out,
    "Not measured. Choose the learning curve when you train; it takes three times the trainings of the folds more.": lambda facts, _values: (
        "learning_curve" not in facts.scorer.evaluation
    ),
    "Annotators, gold: a single annotator's labels as if they were predictions. The gold rests on those very labels, so this flatters the annotators.": _is_labelled,
    "Annotators against gold: the gold rests on their own labels, so this flatters them.": _is_labelled,
    "Annotators, each other: how often two annotators of a response agree, over all pairs of them.": _is_labelled_twice,
    "Accuracy on responses that the predicting model had not seen, with 95%% bootstrap intervals over prompts.": _is_out_of_fold,
    "Accuracy and macro-F1 out of fold by prompt, pooled; below each its 95%% bootstrap interval over prompts. Held-out accuracy: of the kept scorer on the test split, which it has not learned from.": _is_out_of_fold,
    "Accuracy of the scorer with 95%% intervals, beside annotators and what needs no learning; the same figures stand on the tab Figures.": _is_labelled,
    "It is less right than annotators (%(people)s). Let it grade what it is sure of, and people the rest.": _is_labelled_twice,
    "On new prompts it is as right as annotators are (%(people)s), as far as these labels tell.": _is_labelled_twice,
    "So few labels do not tell it apart from annotators (%(people)s): it may be less right than they are.": _is_labelled_twice,
    "It is surely better than what needs no learning (%(simple)s). How right annotators are is not known here.": lambda facts, _values: (
        facts.annotators == 1
    ),
    "The kept scorer learned from %(learned)s responses, and from none of these %(n)s to %(prompts)s prompts. The gate compares it with others on them and, out of fold, on what it learned from.": _has_test,
    "The release is too small for a held-out test: the gate compares it out of fold alone.": _has_no_test,
    "%(n)s response to %(prompts)s prompts": _has_responses,
    "%(n)s responses to %(prompts)s prompts": _has_responses,
    "%(n)s response; %(held)s of the test split held out": _has_held,
    "%(n)s responses; %(held)s of the test split held out": _has_held,
    "evaluated with %(n)s seeds": lambda facts, values: facts.config.get("seeds") == number(values["n"]),
    "what share of the annotators gave each level, in place of the gold label": lambda facts, _values: (
        facts.config.get("target") == "distribution"
    ),
    "Adapted from %(base)s to %(model)s.": _is_adapted,
    "The same evaluation with other seeds: the folds are dealt anew, and what is random in learning as well.": lambda facts, _values: (
        facts.config.get("seeds", 1) > 1
    ),
    "It was not adapted to any model yet. Label 20 to 40 responses of the new model, cut a release with them, and adapt the scorer.": lambda facts, _values: (
        not facts.scorer.adaptations.exists()
    ),
    "On %(n)s labels of %(model)s, predicted by scorers that knew %(labels)s other labels of it, and by the same without them:": _is_adapted,
    "Out of fold, beside the share of a response's annotators that gave each level, without the adjudicator. The least is the entropy of what they said.": _is_labelled,
    "as right as annotators": _is_labelled_twice,
    "below annotators": _is_labelled_twice,
    "not significantly different from annotators": _is_labelled_twice,
    "It learned from no label of this: it predicts nothing here.": lambda facts, _values: facts.levels == 0,
    "It learned from labels of one level only, and always says this one.": lambda facts, _values: (
        facts.levels == 1
    ),
    "no label: it predicts nothing here": lambda facts, _values: facts.levels == 0,
    "one level only, which it always says": lambda facts, _values: facts.levels == 1,
    "%(n)s label of an older guideline version left out": _was_not_stored_so,
    "%(n)s labels of an older guideline version left out": _was_not_stored_so,
    # What it is made of.
    "Backbone %(backbone)s: %(members)s alone, for nothing else helped.": lambda facts, _values: (
        facts.scorer.spec.kind == "ensemble" and len(facts.scorer.card["details"]["members"]) == 1
    ),
    "Backbone %(backbone)s: the average of %(members)s.": lambda facts, _values: (
        facts.scorer.spec.kind == "ensemble" and len(facts.scorer.card["details"]["members"]) > 1
    ),
    "Backbone %(backbone)s: the average of those of its members that help.": _is_kind_of_ensemble,
    "Backbone %(backbone)s: a pretrained transformer with a head for each criterion.": _is_kind("encoder"),
    "Backbone ngram: no pretrained weights; it reads runs of words.": _is_kind("ngram"),
    "There was no encoder.": lambda facts, _values: not facts.scorer.spec.encoder,
    "Its encoder did not help and was left out.": lambda facts, _values: (
        bool(facts.scorer.spec.encoder) and "encoder" not in facts.scorer.card["details"].get("members", [])
    ),
    "%(criterion)s (log loss %(loss)s, the rates %(rates)s)": _is_useless,
    "It does not beat always naming the commonest level at its rate, on %(criteria)s.": _is_useless,
    # How its gold was selected.
    "All responses of each model and dimension, gold questions aside, had gold when the release was cut: none was selected.": lambda facts, _values: (
        facts.is_whole
    ),
    "How the responses that have gold were selected is not recorded: figures over them are of these responses alone.": lambda facts, _values: (
        not any(item.chance for item in facts.scorer.release.items.all())
    ),
    f"{SELECTION_KNOWN} %(n)s labelled response; %(drawn)s of them drawn within strata.": lambda facts, _values: (
        facts.scorer.release.items.filter(chance__isnull=True).count() == 0
    ),
    f"{SELECTION_KNOWN} all %(n)s labelled responses; %(drawn)s of them drawn within strata.": lambda facts, values: (
        facts.scorer.release.items.filter(chance__isnull=True).count() == 0
        and facts.responses == number(values["n"])
    ),
    f"{SELECTION_KNOWN} %(known)s of %(n)s labelled response. Not by a known chance:": lambda facts, values: (
        facts.responses == number(values["n"])
    ),
    f"{SELECTION_KNOWN} %(known)s of %(n)s labelled responses. Not by a known chance:": lambda facts, values: (
        facts.responses == number(values["n"])
        and facts.scorer.release.items.filter(chance__isnull=False).values("task").distinct().count()
        == number(values["known"])
    ),
    "Weighed by the chance of selection (Hájek's ratio), from %(n)s of %(all)s labels, which tell as much as %(effective)s of equal chance:": lambda facts, values: (
        facts.scorer.release.items.filter(chance__isnull=False).count() == number(values["n"])
    ),
    # The gate and promotions.
    "It was never the current scorer of its guideline: the gate has not promoted it.": _was_never_current,
    "No scorer of this guideline is current yet: the gate asks the regression cases, and whether the scorer predicts better than the shares of the levels do.": lambda facts, _values: (
        facts.first_promotion is None
    ),
    "No scorer of this guideline was ever current.": lambda facts, _values: facts.first_promotion is None,
    "It would be the first: the gate asks it the regression cases alone.": lambda facts, _values: (
        facts.first_promotion is None
    ),
    "It is the current scorer": lambda facts, _values: bool(facts.promotions),
    "The gate has not judged it yet.": lambda facts, _values: not facts.promotions,
    "It was the first scorer of its guideline: there was nothing to compare it with.": _is_first,
    "The first scorer of its guideline: there was none to compare it with.": _is_first,
    "There were no regression cases.": lambda facts, _values: facts.cases == 0,
    "There are no regression cases.": lambda facts, _values: facts.cases == 0,
    "Not worse than the scorers that it was compared with: a loss of %(margin)s points of accuracy or more is ruled out on every criterion that could be compared.": _was_promoted_as(
        "not_worse"
    ),
    "Not shown: the labels do not rule out that it loses %(margin)s points of accuracy or more beside the scorers that it was compared with.": _was_promoted_as(
        "not_shown"
    ),
    "A researcher promoted it for this reason: %(reason)s": _has_reason,
    "The scorer %(scorer)s did not pass the gate by itself.": lambda facts, _values: (
        facts.last_promotion is not None and facts.last_promotion.kind == "reason"
    ),
    "%(name)s: out of fold it predicts no better than the shares of the levels alone (log loss).": _is_useless,
    "%(criterion)s: out of fold it predicts no better than the shares of the levels alone (log loss).": _is_useless,
    "%(criterion)s: %(low)s to %(high)s points (%(n)s labels).": _is_compared,
    "%(criterion)s, beside the best of them: %(low)s to %(high)s points (%(n)s labels).": _is_compared,
    "Comparison with %(scorer)s, the scorer that was current": _is_compared,
    "Comparison with %(scorer)s, the best scorer promoted before": _is_compared,
    "%(labels)s labels; the prompts of %(test)s of them neither scorer has learned. Of the others a scorer that has learned the prompt answers out of fold.": lambda facts, values: (
        number(values["labels"]) <= facts.responses
        and number(values["test"]) in {0, facts.responses - facts.learnable}
    ),
    "It was verdict %(n)s on these labels.": lambda _facts, values: number(values["n"]) > 1,
    'This is verdict %(n)s on labels of these datasets. Of so many verdicts at least one calls a loss of the margin "not worse" with a chance of up to %(bound)s.': lambda _facts, values: (
        number(values["n"]) > 1
    ),
    "Not compared, because neither had a label of them to learn from: %(criteria)s.": _is_compared,
    "The scorer that it replaced was trained on a version of the guideline with other scales throughout: there was nothing to compare the two on.": _was_not_stored_so,
    "The current scorer, %(against)s, was trained on a version of the guideline with other scales throughout: there is nothing to compare the two on.": _was_not_stored_so,
    "An earlier version of the gate let it pass: it was not found to be worse than the scorer before it. That shows no bound on what it loses.": _was_not_stored_so,
    "An earlier version of the gate compared it with %(against)s on the test split alone. Whatever was not found to be worse passed then: here it is called not shown.": _was_not_stored_so,
    "This scorer is of the first version, which did not measure it; train it anew.": _was_not_stored_so,
    # The board: what it counts.
    "imported: %(annotations)s of the annotations, %(decisions)s of the decisions": lambda facts, values: (
        (facts.batches.imported, facts.batches.imported_decisions)
        == (number(values["annotations"]), number(values["decisions"]))
    ),
    "imported": _is_imported,
    "Origin of the labels": _is_imported,
    "each with the annotations behind it": _is_labelled,
    "%(share)s of the responses have a prediction of the scorer and no gold label: what its errors do to the numbers stands under Estimates.": _has_predictions,
    "Hollow numbers are predicted by a scorer, all or in part; they are not compared and have no interval.": _has_predictions,
    "Hollow circles: predicted by a scorer, all or in part; not compared": _has_predictions,
    "In brackets: predicted by a scorer, all or in part, without an interval; not compared.": _has_predictions,
    "This response is no part of the scorer's release: the scorer has not learned from it.": lambda facts, _values: (
        facts.fold is None
    ),
    "This text is in the scorer's release. The prediction is by the model of fold %(fold)s, which learned from the other folds only.": _has_fold,
    # Who is compared, and why not.
    "%(n)s model is wholly predicted by a scorer; not compared.": _lacks_gold_in_a_column,
    "%(n)s models are wholly predicted by a scorer; not compared.": _lacks_gold_in_a_column,
    "%(n)s model has gold in some of its columns and predictions alone in others; not compared.": _has_gold_in_some_columns,
    "%(n)s models have gold in some of their columns and predictions alone in others; not compared.": _has_gold_in_some_columns,
    "predicted by a scorer; not compared": lambda facts, _values: facts.models_without_gold > 0,
    "partly predicted by a scorer; not compared": lambda facts, _values: facts.models_partly_gold > 0,
    "%(n)s model is not compared because chance did not choose which of its responses have gold.": _has_chosen_gold,
    "%(n)s models are not compared because chance did not choose which of their responses have gold.": _has_chosen_gold,
    "not compared: chance did not choose its gold": _has_chosen_gold,
    "not compared: no gold": lambda facts, _values: facts.models_without_gold > 0,
    "not compared: run by an earlier version": _was_not_stored_so,
    "%(n)s model is not compared because this run is of an earlier version, which took predictions for the truth; run it again.": _was_not_stored_so,
    "%(n)s models are not compared because this run is of an earlier version, which took predictions for the truth; run it again.": _was_not_stored_so,
    "It was finished by an earlier version of Assay, which did not compute this. Run it again: nothing that has a label or a prediction is asked for anew.": _was_not_stored_so,
    "This run does not know how the responses that have gold were chosen; run it again to see that.": _was_not_stored_so,
    "Ranks and pairs are among the %(n)s compared of %(all)s models.": lambda facts, values: (
        facts.models == number(values["all"])
    ),
    "Numbers of gold only and combined ones assume that chance chose which responses have gold. For some it did not: these numbers may be off by more than their intervals say.": _has_chosen_gold,
    "%(n)s labels are of %(batch)s, where %(k)s more items of the same models and dimensions have no gold: these are often the difficult ones.": _has_unfinished_batch,
    "%(n)s labels are of %(batch)s, which has some of the responses; nothing says that chance chose them.": _has_batch,
    "%(n)s labels are of %(batch)s, which has what a scorer abstained from: the difficult ones.": _was_not_stored_so,
    "%(n)s labels are of %(batch)s, which was drawn from other responses than there are now.": _has_batch,
    "%(n)s labels are of %(batch)s, which was drawn from what earlier labels of unknown selection had left.": _has_batch,
    "%(n)s labels are of %(batch)s, whose responses were chosen because a scorer was least sure of them.": _was_not_stored_so,
    "%(n)s labels are of %(batch)s; how its responses were selected is not recorded in the release.": _has_batch,
    "a batch of which some items have no gold": lambda facts, _values: (
        facts.batches.unsettled > 0 or bool(facts.batches.states.get("withdrawn"))
    ),
    "Nothing can be combined here: no model has two responses with both a gold label and a prediction in each dimension that the number is of. Label some of them, drawn at random.": lambda facts, _values: (
        facts.least_both < 2
    ),
    "%(n)s model is not compared because a column or criterion of it has fewer than %(least)s gold labels.": _lacks_some_gold,
    "%(n)s models are not compared because a column or criterion of them has fewer than %(least)s gold labels.": _lacks_some_gold,
    "Not compared: as on the board, what rests on gold and predictions has no interval there, and is no finding.": _has_predictions,
    # Gold with a person left out.
    "Labels have been corrected since this was computed: these figures are of before.": _was_corrected,
    "Labels have been corrected since: the figures below are those of then.": _was_corrected,
    "How ranks move without each person is being computed: open this report again in a few minutes.": lambda _facts, _values: (
        Job.objects.filter(state__in=[Job.State.QUEUED, Job.State.RUNNING]).exists()
    ),
    "How ranks move without each person is not known: the last attempt to compute it did not come to its end.": lambda _facts, _values: (
        Job.objects.filter(state__in=[Job.State.FAILED, Job.State.CANCELLED]).exists()
    ),
    "Without %(n)s of the people some compared model has no gold left, so there are no ranks to show.": _has_at_most_people,
    "Without %(n)s person some compared model has no gold left, so there are no ranks to show.": _has_at_most_people,
    "Each name in an imported file counts as one person; whether it is one is not recorded.": _is_imported,
    "Leaving out %(n)s person changes the rank of no compared model.": _has_at_most_people,
    "Leaving out any of %(n)s people changes the rank of no compared model.": _has_at_most_people,
    "Leaving out %(moving)s of %(n)s people, one at a time, changes the order of the compared models.": _has_at_most_people,
    "Leaving out %(moving)s of %(n)s person changes the order of the compared models.": _has_at_most_people,
    "Labels of %(n)s task were corrected after the release; it stays as it was released.": _was_not_stored_so,
    "Labels of %(n)s tasks were corrected after the release; they stay as they were released.": _was_not_stored_so,
    # What a card and an exported scorer keep, in English.
    "A scorer of the guideline {guideline}, trained on the gold release {release}.": lambda facts, values: (
        values["guideline"] == str(facts.scorer.guideline) and values["release"] == facts.scorer.release.name
    ),
    "`weights` holds exactly what was registered; the sha256 over its files is {sha256} (of the lines `sha256 path`, sorted by path; of a file of arrays, `.npz`, the sha256 of its arrays: of each, by name, `NAME DTYPE SHAPE ` and its bytes, or of the file itself where an early version registered it).": lambda facts, values: (
        values["sha256"] == facts.scorer.weights_sha256
    ),
    "By log loss out of fold it does not beat always naming the commonest level at its rate, on": _is_useless,
    "By log loss out of fold it beats always naming the commonest level at its rate, on every criterion measured that has labels of several levels.": _is_useful,
    "Whether it beats always naming the commonest level is not measured: no label of a criterion with labels of several levels was predicted out of fold.": _is_useful,
}
"""What states how something was done, and when it may be said."""

RESULT_RETIRED: dict[str, ResultHolds] = {
    "%(n)s model is predicted by a scorer; not compared.": _lacks_gold,
    "%(n)s models are predicted by a scorer; not compared.": _lacks_gold,
    "All responses of each model and dimension have gold: none was selected.": lambda facts, _values: (
        facts.has_gold_everywhere
    ),
    "Nothing can be combined here: no model has two responses with both a gold label and a prediction. Label some of them, drawn at random.": lambda facts, _values: (
        facts.most_both < 2
    ),
    "The kept scorer learned from %(learned)s responses, and from none of these %(n)s to %(prompts)s prompts. On them the gate compares it with others.": _was_not_stored_so,
    "By prompt: five folds, all responses to a prompt in one of them, each predicted by the model that learned from the other four.": lambda facts, _values: (
        facts.folds == 5 and facts.has_whole_folds
    ),
    "Annotators, gold: a single annotator's labels before adjudication, as if they were predictions. The gold rests on those very labels, so this is a ceiling that flatters people.": lambda facts, _values: (
        facts.is_given_whole and facts.batches.sources.get("adjudicated", 0) > 0
    ),
    "Annotators, each other: the share of responses on which the first two agree.": lambda facts, _values: (
        facts.annotators == 2
    ),
    "Accuracy and macro-F1 of five folds by prompt, pooled; below each its 95%% bootstrap interval over prompts. Held-out accuracy: of the kept scorer on the test split, which it has not learned from.": lambda facts, _values: (
        facts.folds == 5
    ),
    "Annotators against gold: the gold rests on their own labels, so this flatters people.": _is_given_whole,
    "Accuracy of the scorer with 95%% intervals, beside people and what needs no learning; the same figures stand on the tab Figures.": _is_given_whole,
    "It is less right than people (%(people)s). Let it grade what it is sure of, and people the rest.": _is_given_whole,
    "It is surely better than what needs no learning (%(simple)s). How right people are is not known here.": _is_given_whole,
    "On new prompts it is as right as people are (%(people)s), as far as these labels tell.": _is_given_whole,
    "So few labels do not tell it apart from people (%(people)s): it may be less right than they are.": _is_given_whole,
    "as right as people": _is_given_whole,
    "below people": _is_given_whole,
    "not significantly different from people": _is_given_whole,
    "It and the offsets that bring the probabilities to the rate of the labels were chosen on prompts that were held out within the training.": lambda facts, _values: (
        facts.scorer.card["learned_from"] >= 20
    ),
    "The release is too small for a held-out test: the gate has nothing to compare it on.": _was_not_stored_so,
    "This response is no part of the scorer's release: the scorer has never seen it.": _is_kind("ngram"),
    "People, scorer and both": _is_given_whole,
    "people only": _is_given_whole,
    "People only": _is_given_whole,
    "Labels of people": _is_given_whole,
    "People only: the responses that have gold labels.": _is_given_whole,
    "Combined: people's labels, made sharper by the predictions and without their bias (prediction-powered inference).": _is_given_whole,
    "Weight: how much the predictions count, from the data; near 0 the scorer tells nothing that people's labels do not.": _is_given_whole,
    "%(scope)s, %(metric)s: for each model a dot with its 95%% interval by people only, by the scorer only, by both, and by both for these prompts only.": _is_given_whole,
    "%(scope)s, %(metric)s: people, scorer and both, with 95%% intervals": _is_given_whole,
    "What the scorer added: its predictions make the interval of people's labels %(share)s narrower, as the median over %(n)s models.": _is_given_whole,
    "What the scorer added: nothing here; the interval is as wide as that of people's labels alone.": _is_given_whole,
    "Prediction-powered inference (PPI++): the mean of people's labels y, corrected by what the scorer's predictions f say of the responses that nobody labelled, within strata of how sure the scorer is.": _is_given_whole,
    "The same for the fixed set of prompts of this board: responses that people labelled are known, so only the rest is uncertain (finite population correction).": _is_given_whole,
    "Its number less the one that people's labels correct.": _is_given_whole,
    "People and scorer combined": _is_given_whole,
    "People's and combined numbers assume that chance chose which responses have gold.": _is_given_whole,
    "%(n)s labels are of %(batch)s, of whose items %(k)s have no gold: what people differ on is often difficult.": lambda facts, values: (
        facts.is_given_whole and _has_unfinished_whole(facts, values)
    ),
}
"""Of sentences in a longer message the part that stated it: it is looked for in English and in no other language."""
