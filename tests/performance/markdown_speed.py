"""How much of a processor a text in Markdown takes from its source to HTML: an ordinary answer, and texts made slow.

python -m tests.performance.markdown_speed
"""

from __future__ import annotations

import os
import time
from statistics import median

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

# What a parser that looks ahead, or back, too far would never finish.
SLOW = {
    "brackets of formulas": "\\(",
    "dollars": "$a ",
    "lines of dollars": "$$a\n",
    "lines of brackets": "\\[a\n",
    "stars": "*_",
    "links": "[a](b ",
    "images": "![",
    "backticks": "`a``b",
    "entities": "&a",
    "rows of a table": "|x|\n",
    "lines": "a\n",
    "quotes": ">",
}
CHARACTERS = 100_000


def measure(source: str) -> float:
    from annotation.domain.texts import read_markdown, write_html

    began = time.process_time()
    write_html(read_markdown(source), image="Image:")
    return time.process_time() - began


def main() -> None:
    django.setup()
    from tests.annotation.domain.texts.documents import write_answer

    answers = [write_answer(6000, number) for number in range(30)]
    measure(answers[0])
    print(f"6,000 characters: median {1000 * median(map(measure, answers)):.1f} ms of {len(answers)}")
    for name, unit in SLOW.items():
        head = "|a|\n|-|\n" if name == "rows of a table" else ""
        source = (head + unit * CHARACTERS)[:CHARACTERS]
        print(f"{CHARACTERS:,} characters of {name}: {measure(source):.2f} s")


if __name__ == "__main__":
    main()
