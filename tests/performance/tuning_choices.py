"""Whether an ordinal loss and balanced classes help when an encoder is fine-tuned on XSTest; prints a Markdown table.

    python -m tests.performance.tuning_choices [--encoder DIR] [--of 3] [--folds 2] [--threads 1] [--json FILE]

Each choice of ``TransformerSettings`` is trained on the same folds by prompt, of every Nth response, with one seed, and
the folds' predictions are pooled: accuracy, macro-F1, mean absolute distance in levels, calibration error. With
``--json`` each choice's predictions are kept as they come, so that a stopped run goes on with the next choice.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from scoring.backbones.transformer.training import fit_transformer
from scoring.domain.spec import Spec, TransformerSettings
from scoring.domain.training_data import splits_by_prompt
from tests.performance.scorer_xstest import accuracy, calibration_error, find_small_encoder, macro_f1, truth
from tests.scoring.xstest import HEAD, examples

CHOICES = {
    "as it comes (balance 0.5)": {},
    "balance 0": {"balance": 0.0},
    "balance 1": {"balance": 1.0},
    "ordinal 0.5": {"ordinal": 0.5},
    "ordinal 1": {"ordinal": 1.0},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--encoder", default=find_small_encoder(), help="a folder of Hugging Face; %(default)s"
    )
    parser.add_argument("--of", type=int, default=3)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = examples()
    rows = [row for row in rows if sum(row.key.encode()) % options.of == 0]
    splits = splits_by_prompt(rows, k=5)[: options.folds]
    tested = [i for split in splits for i in split.test]
    right = truth([rows[i] for i in tested])
    results = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    print(f"{len(rows)} responses, {options.folds} of 5 folds, {len(tested)} predicted\n")
    print(
        "| choice | accuracy | macro-F1 | levels off | ECE | seconds |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    )
    for name, choice in CHOICES.items():
        if name not in results:
            began, fold_shares = time.perf_counter(), []
            for split in splits:
                spec = Spec(
                    "encoder", options.encoder, "full", settings=replace(TransformerSettings(), **choice)
                )
                fitted = fit_transformer(spec, [rows[i] for i in split.train], [HEAD])
                predictions = fitted.predict([rows[i] for i in split.test])
                fold_shares += [
                    [prediction[HEAD.criterion][value] for value in HEAD.values] for prediction in predictions
                ]
            results[name] = {"shares": fold_shares, "seconds": time.perf_counter() - began}
            if options.json:
                options.json.write_text(json.dumps(results))
        shares = np.array(results[name]["shares"])
        off = np.abs(shares.argmax(axis=1) - right).mean()
        figures = [accuracy(shares, right), macro_f1(shares, right), off, calibration_error(shares, right)]
        print(
            f"| {name} | {' | '.join(f'{figure:.4f}' for figure in figures)} | {results[name]['seconds']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
