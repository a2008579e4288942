"""What a reader of the code meets: its size, its names, its folders, its templates, its SQL. Counts, no verdicts.

    python -m tests.performance.house [FOLDER]    of the working tree, or of another checkout in FOLDER
    python -m tests.performance.house --check     print what breaks the rules of names, and fail for it
    python -m tests.performance.house --list      print each place beside its count

The rules that ``--check`` keeps (it is a step of ``./run check``): no private word as a name, in the tests neither, no
class name twice, no SQL outside its module, no template line over 120 characters, and at most 15 files to a folder.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = ("annotation", "scoring", "benchmark")
PACKAGES = (*APPS, "config")
OUR_PACKAGES = frozenset({*PACKAGES, "tests"})

# Words that say nothing of the value they name. A name is private where it is one of them, whatever it begins with.
PRIVATE_WORDS = frozenset(
    [
        "one",
        "found",
        "told",
        "said",
        "given",
        "asked",
        "kept",
        "mine",
        "theirs",
        "here",
        "there",
        "wanted",
        "shown",
        "spoken",
        "behind",
        "again",
        "whoever",
        "whatever",
        "brought",
        "heard",
        "meant",
        "at_hand",
        "tells",
        "says",
        "who",
        "what",
        "how",
        "why",
        "thing",
        "things",
        "nothing",
        "everything",
        "somebody",
        "those",
        "some",
        "others",
        "whole",
        "alike",
        "apart",
        "alone",
        "taken",
        "chosen",
        "lacking",
        "beside",
        "among",
        "thereby",
    ]
)
# Columns, fields of forms and of the API, and the placeholders of messages keep the names under which they are stored.
STORED_FIELDS = frozenset({"again", "among", "given", "others", "said", "taken", "wanted", "why"})
# Folders that may hold more: helpers of no subject, a module for each file format, a module for each command.
FLAT = frozenset({"core", "formats", "commands", "migrations"})
MAX_FILES = 15
MAX_LINE = 120
SQL_FOLDER = "annotation/models/sql/"
# They name no table: they ask the connection itself, or build a statement of a model's columns.
CONNECTION_MODULES = frozenset(
    {
        "annotation/core/databases.py",
        "annotation/core/signs.py",
        "annotation/core/sql.py",
        "config/database.py",
    }
)
SQL = re.compile(r"^\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|EXISTS \(|ANALYZE|SAVEPOINT|LOCK TABLE)\b")
# Error messages are words with a code (``N_``, and what the forms' fields refuse); sentences stand in templates.
TRANSLATORS = frozenset({"_", "gettext", "ngettext", "pgettext"})
SENTENCE = re.compile(r" .*[.]$", re.DOTALL)
PLACEHOLDER = re.compile(r"\{\w*\}|%\(\w+\)s")
ERRORS_OF_FIELDS = re.compile(r"/forms/|^annotation/core/passwords.py$")
DJANGO_NAMES = frozenset({"Meta", "Media", "State", "Kind", "Command", "Migration", "Role"})
DJANGO_BASES = frozenset({"TextChoices", "IntegerChoices"})


NAMED_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs)


@dataclass
class House:
    """What was counted. ``places`` gives ``file:line name`` for each count that a rule is about."""

    python_lines: int = 0
    helpers: int = 0
    single_use_helpers: int = 0
    names: int = 0
    private_words: Counter[str] = field(default_factory=Counter)
    names_in_tests: int = 0
    private_words_in_tests: int = 0
    dataclasses: int = 0
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    files_by_folder: Counter[str] = field(default_factory=Counter)
    sql: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    template_characters: int = 0
    template_lines: int = 0
    long_template_lines: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)

    @property
    def repeated_classes(self) -> dict[str, list[str]]:
        return {name: places for name, places in sorted(self.classes.items()) if len(places) > 1}

    @property
    def crowded_folders(self) -> dict[str, int]:
        return {
            folder: number
            for folder, number in sorted(self.files_by_folder.items())
            if number > MAX_FILES and Path(folder).name not in FLAT
        }


def measure(root: Path) -> House:
    house = House()
    for path in _python_files(root):
        source = path.read_text(encoding="utf-8")
        place = path.relative_to(root).as_posix()
        house.python_lines += source.count("\n")
        if path.parent != root and path.name != "__init__.py":
            house.files_by_folder[path.parent.relative_to(root).as_posix()] += 1
        _add_module(house, ast.parse(source), place)
    for path in sorted((root / "tests").rglob("*.py")):
        _add_test_names(house, ast.parse(path.read_text(encoding="utf-8")), path.relative_to(root).as_posix())
    for path in sorted((root / "templates").rglob("*")):
        if path.is_file():
            _add_template(house, path, root)
    return house


def _python_files(root: Path) -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def _add_module(house: House, tree: ast.Module, place: str) -> None:
    names = Counter(_names(tree))
    house.names += names.total()
    _add_names(house, tree, place, names)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            _add_class(house, node, place)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if (
                SQL.match(node.value)
                and not place.startswith(SQL_FOLDER)
                and place not in CONNECTION_MODULES
                and not _is_docstring(tree, node)
            ):
                house.sql.append(f"{place}:{node.lineno}")
        elif isinstance(node, ast.Call) and _is_composed(node) and not ERRORS_OF_FIELDS.search(place):
            house.sentences.append(f"{place}:{node.lineno}")


def _add_names(house: House, tree: ast.Module, place: str, names: Counter[str]) -> None:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and re.match(r"_[a-z]", node.name):
            house.helpers += 1
            house.single_use_helpers += names[node.name] == 2  # its definition and its use
    for name, line, is_field in _find_private_words(tree):
        house.private_words[name.strip("_")] += 1
        if not (is_field and name in STORED_FIELDS):
            house.places.append(f"{place}:{line} {name}")


def _add_test_names(house: House, tree: ast.Module, place: str) -> None:
    house.names_in_tests += sum(1 for _name in _names(tree))
    for name, line, is_field in _find_private_words(tree):
        if not (is_field and name in STORED_FIELDS):
            house.private_words_in_tests += 1
            house.places.append(f"{place}:{line} {name}")


def _find_private_words(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """But for what a library calls so: ``given`` of Hypothesis."""
    libraries = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and not node.level
        and (node.module or "").partition(".")[0] not in OUR_PACKAGES
        for alias in node.names
    }
    return (
        placed
        for placed in _placed_names(tree)
        if placed[0].strip("_") in PRIVATE_WORDS and placed[0] not in libraries
    )


def _names(tree: ast.AST) -> Iterator[str]:
    for name, _line, _is_field in _placed_names(tree):
        yield name


def _placed_names(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Each name, its line, and whether it is a field: an attribute, or the declaration of one in a class."""
    fields = {
        id(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        for target in _targets(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno, id(node) in fields
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno, True
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno, False
        elif isinstance(node, NAMED_NODES) and node.name:
            yield node.name, node.lineno, False


def _targets(statement: ast.stmt) -> Sequence[ast.expr]:
    if isinstance(statement, ast.AnnAssign):
        return [statement.target]
    return statement.targets if isinstance(statement, ast.Assign) else []


def _add_class(house: House, node: ast.ClassDef, place: str) -> None:
    house.dataclasses += any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    is_choices = any(ast.unparse(base).rpartition(".")[2] in DJANGO_BASES for base in node.bases)
    if node.name not in DJANGO_NAMES and not is_choices:
        house.classes[node.name].append(f"{place}:{node.lineno}")


def _is_docstring(tree: ast.Module, constant: ast.Constant) -> bool:
    return any(
        isinstance(node, ast.Expr) and node.value is constant
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
    )


def _is_composed(call: ast.Call) -> bool:
    """Whether Python composes a sentence of values: a translated message with a placeholder that ends with a stop."""
    if not (isinstance(call.func, ast.Name) and call.func.id in TRANSLATORS and call.args):
        return False
    text = call.args[-1] if call.func.id == "pgettext" else call.args[0]
    if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
        return False
    return bool(SENTENCE.search(text.value) and PLACEHOLDER.search(text.value))


def _add_template(house: House, path: Path, root: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        house.template_lines += 1
        house.template_characters += len(line)
        if len(line) > MAX_LINE:
            house.long_template_lines.append(f"{path.relative_to(root).as_posix()}:{number} ({len(line)})")


def rows(house: House) -> list[tuple[str, str]]:
    words = house.private_words.total()
    return [
        ("Python lines (no tests, no migrations)", f"{house.python_lines:,}"),
        (
            "private helpers used exactly once",
            f"{house.single_use_helpers / house.helpers:.0%} of {house.helpers:,}" if house.helpers else "-",
        ),
        ("private words among names", f"{words / house.names:.2%} ({words:,} of {house.names:,})"),
        (
            "private words among names of the tests",
            f"{house.private_words_in_tests / house.names_in_tests:.2%}"
            f" ({house.private_words_in_tests:,} of {house.names_in_tests:,})"
            if house.names_in_tests
            else "-",
        ),
        ("dataclasses", f"{house.dataclasses:,}"),
        ("class names used twice or more", f"{len(house.repeated_classes):,}"),
        ("template characters a line", f"{house.template_characters / house.template_lines:.0f}"),
        (f"template lines over {MAX_LINE}", f"{len(house.long_template_lines):,}"),
        (f"folders with more than {MAX_FILES} files", _text(house.crowded_folders)),
        ("modules with SQL beside the one", f"{len({place.split(':')[0] for place in house.sql}):,}"),
        ("sentences composed in Python", f"{len(house.sentences):,}"),
    ]


def _text(folders: dict[str, int]) -> str:
    return ", ".join(f"{folder}/ {number}" for folder, number in folders.items()) or "none"


def list_faults(house: House) -> list[str]:
    repeated = [f"{name}: {', '.join(places)}" for name, places in house.repeated_classes.items()]
    return [
        *(f"private word: {place}" for place in house.places),
        *(f"class name used twice: {line}" for line in repeated),
        *(f"SQL outside {SQL_FOLDER}: {place}" for place in house.sql),
        *(f"template line over {MAX_LINE}: {place}" for place in house.long_template_lines),
        *(f"more than {MAX_FILES} files: {folder} ({n})" for folder, n in house.crowded_folders.items()),
        *(f"sentences composed in Python: {place}" for place in house.sentences),
    ]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--check", action="store_true", help="print what breaks the rules, and fail for it")
    parser.add_argument("--list", action="store_true", help="print each place")
    options = parser.parse_args(arguments)
    house = measure(options.folder.resolve())
    if options.check or options.list:
        print("\n".join(list_faults(house)), end="\n" if list_faults(house) else "")
    if options.check:
        return 1 if list_faults(house) else 0
    width = max(len(label) for label, _value in rows(house))
    for label, value in rows(house):
        print(f"{label:<{width}}  {value}")
    for word, number in house.private_words.most_common(20):
        print(f"  {word:<{width - 2}}  {number:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
