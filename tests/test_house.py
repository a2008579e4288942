"""What ``python -m tests.performance.house`` counts, on a small tree of its own."""

from __future__ import annotations

from pathlib import Path

from tests.performance.house import list_faults, measure

MODULE = '''
"""SELECT in a docstring is no SQL."""

from dataclasses import dataclass


@dataclass
class Line:
    found: int


def _help(one):
    told = [each for each in one]
    return told


def ask():
    return _help("SELECT 1"), _("{a} is here.")
'''


def make_tree(root: Path) -> Path:
    for place in ("annotation/views/first.py", "benchmark/views/second.py"):
        path = root / place
        path.parent.mkdir(parents=True)
        path.write_text(MODULE, encoding="utf-8")
    for number in range(16):
        (root / "annotation/views" / f"page_{number}.py").write_text("", encoding="utf-8")
    test = root / "tests" / "test_first.py"
    test.parent.mkdir()
    test.write_text("def test_it(found):\n    assert found\n", encoding="utf-8")
    template = root / "templates" / "page.html"
    template.parent.mkdir()
    template.write_text("<p>short</p>\n" + "x" * 121 + "\n", encoding="utf-8")
    return root


def test_what_is_counted(tmp_path: Path):
    house = measure(make_tree(tmp_path))
    assert house.python_lines == 2 * MODULE.count("\n")
    assert (house.helpers, house.single_use_helpers, house.dataclasses) == (2, 2, 2)
    assert house.private_words == {"found": 2, "one": 4, "told": 4}
    assert (house.private_words_in_tests, house.names_in_tests) == (2, 3)
    assert list(house.repeated_classes) == ["Line"]
    assert house.crowded_folders == {"annotation/views": 17}
    assert [place.partition(":")[0] for place in house.sql] == [
        "annotation/views/first.py",
        "benchmark/views/second.py",
    ]
    assert house.long_template_lines == ["templates/page.html:2 (121)"]
    assert len(house.sentences) == 2


def test_each_fault_names_its_place(tmp_path: Path):
    faults = list_faults(measure(make_tree(tmp_path)))
    assert "private word: annotation/views/first.py:9 found" in faults
    assert "private word: tests/test_first.py:1 found" in faults
    assert "more than 15 files: annotation/views (17)" in faults
    assert "template line over 120: templates/page.html:2 (121)" in faults


def test_a_tidy_tree_has_no_fault(tmp_path: Path):
    for app in ("annotation", "scoring", "benchmark", "config", "templates"):
        (tmp_path / app).mkdir()
    (tmp_path / "annotation" / "tasks.py").write_text("class Task:\n    state: str\n", encoding="utf-8")
    assert list_faults(measure(tmp_path)) == []
