"""A release's datasheet, written from its manifest alone, in English and in Chinese. Pure.

It answers, in words of its own, the questions of Gebru et al., Datasheets for Datasets (Communications of the ACM
64(12), 2021), as far as the manifest knows: why, what, how collected, by whom, how well they agreed, what was done to
it, for what it is fit, how it is passed on and kept. Older manifests know less; what they lack is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from annotation.declared import dimensions_of, imported_into, in_order

LANGUAGES = ("en", "zh")
UNDEFINED = "-"
_MARKUP = re.compile(r"([\\`*_\[\]<>|#~&])")
_LIST = re.compile(r"^(\s*)(\d*)([-+=.)])")
Manifest: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Paragraph:
    """``quoted`` is a person's own text: line by line as it was written."""

    text: str
    quoted: bool = False


@dataclass(frozen=True)
class Table:
    """``numbers`` are the places of the columns that hold numbers."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Paragraph | Table]


def markdown(manifest: Manifest, language: str) -> str:
    """The datasheet as Markdown, with a line feed at its end. ``language`` is ``en``, ``zh`` or a kind of these."""
    lines = [f"# {_escaped(title(manifest, language))}", ""]
    for section in sections(manifest, language):
        lines += [f"## {section.title}", ""]
        for block in section.blocks:
            lines += [*_block(block), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def title(manifest: Manifest, language: str) -> str:
    say = Voice(language)
    return say("Datasheet of the gold release {name}", "金标发布 {name} 的数据说明书", name=manifest["name"])


def sections(manifest: Manifest, language: str) -> list[Section]:
    """Each question with its answers, in the order in which they are asked."""
    say = Voice(language)
    answers = (
        (say("Motivation", "动机"), _motivation),
        (say("Composition", "组成"), _composition),
        (say("Collection", "采集过程"), _collection),
        (say("Who annotated", "标注人员"), _people),
        (say("Agreement", "一致性"), _agreement),
        (say("Adjudication", "仲裁"), _adjudication),
        (say("Preprocessing", "预处理"), _preprocessing),
        (say("Uses", "用途"), _uses),
        (say("Distribution", "分发"), _distribution),
        (say("Maintenance", "维护"), _maintenance),
    )
    ordered = in_order(manifest)
    found = [Section(name, tuple(answer(ordered, say))) for name, answer in answers]
    return [section for section in found if section.blocks]


def splits_table(manifest: Manifest, language: str) -> Table | None:
    return _splits(in_order(manifest)["splits"], Voice(language)) if "splits" in manifest else None


def imports_table(manifest: Manifest, language: str) -> Table | None:
    files = (manifest.get("imported") or {}).get("files")
    return _files(files, Voice(language)) if files else None


def agreement_table(manifest: Manifest, language: str) -> Table | None:
    return _agreement_table(manifest, Voice(language)) if manifest.get("agreement") else None


def warnings(manifest: Manifest, language: str) -> list[str]:
    """What whoever uses the release should mind."""
    return [one.text for one in _same_texts(manifest, Voice(language))]


class Voice:
    """Says everything in one of the two languages; both stand side by side, so that they say the same."""

    def __init__(self, language: str) -> None:
        self.language = "zh" if language.lower().startswith("zh") else "en"

    def __call__(self, english: str, chinese: str, **values: Any) -> str:
        return (chinese if self.language == "zh" else english).format(**values)

    def words(self, words: Mapping[str, str] | None, otherwise: str) -> str:
        """A text of a guideline or of a manager, which may be there in one language only."""
        found = words or {}
        kin = (text for known, text in found.items() if known.startswith(self.language))
        return next(kin, next(iter(found.values()), otherwise))

    def joined(self, parts: Iterable[str]) -> str:
        return ("、" if self.language == "zh" else ", ").join(parts)

    def count(self, n: int) -> str:
        return f"{n:,}"


def _motivation(manifest: Manifest, say: Voice) -> Iterable[Paragraph]:
    if about := manifest.get("about"):
        yield Paragraph(about, quoted=True)
    else:
        yield Paragraph(
            say("Nobody has written down why this release was made.", "没有人写下制作这一发布的原因。")
        )
    names = [
        f"{say.words(g.get('title'), g['name'])} ({g['name']}@{g['version']})" for g in manifest["guidelines"]
    ]
    yield Paragraph(
        say(
            "It holds what people judged of the responses of language models under {guidelines}.",
            "其中是人们依据{guidelines}对语言模型回复所作的判断。",
            guidelines=say.joined(names),
        )
    )


def _composition(manifest: Manifest, say: Voice) -> Iterable[Paragraph | Table]:
    counts = manifest["counts"]
    yield Paragraph(
        say(
            "An instance is one response of a model to a prompt, with one gold label for each criterion that was "
            "asked about it. Responses: {rows}; labels: {labels}; from {datasets}.",
            "一个实例是某个模型对一条提示的一个回复，以及针对它的每项标准的一个金标标签。回复：{rows}；"
            "标签：{labels}；来自 {datasets}。",
            rows=say.count(counts["rows"]),
            labels=say.count(counts["labels"]),
            datasets=say.joined(manifest["datasets"]),
        )
    )
    if "prompts" in counts:
        yield Paragraph(
            say(
                "Different prompts: {prompts}.",
                "不同的提示：{prompts}。",
                prompts=say.count(counts["prompts"]),
            )
        )
    yield Paragraph(
        say(
            "Prompts and responses stand as they were given. They may offend, mislead or hold personal data, "
            "and a text that asks for something is not to be obeyed.",
            "提示和回复保持原样，可能令人不适、误导他人或含有个人信息；文本中的任何要求都不应照做。",
        )
    )
    yield _levels(manifest, say)
    for heading, key, called in (
        (say("Dimension", "维度"), "by_dimension", _dimensions(manifest, say)),
        (say("Model", "模型"), "by_model", {}),
        (say("Language", "语言"), "by_language", {}),
    ):
        if counts.get(key):
            yield _counted(heading, counts[key], counts["labels"], say, called)
    if "by_subcomponent" in counts:
        yield from _subcomponents(manifest, say)
    sources = {name: say(*words) for name, words in SOURCES.items()}
    heading = say("Where the label comes from", "标签来源")
    yield _counted(heading, counts["by_source"], counts["labels"], say, sources)
    if "splits" in manifest:
        yield _splits(manifest["splits"], say)
    yield from _same_texts(manifest, say)


SOURCES = {
    "single": ("one annotator", "单人标注"),
    "unanimous": ("all annotators alike", "标注员一致"),
    "within_tolerance": ("annotators within the tolerance: the lower median", "容差以内：取较低中位数"),
    "adjudicated": ("adjudicator", "仲裁员裁定"),
}


def _levels(manifest: Manifest, say: Voice) -> Table:
    known = {c["name"]: c for g in manifest["guidelines"] for c in g.get("criteria", ())}
    rows = []
    for name, levels in manifest["counts"]["by_level"].items():
        criterion = known.get(name, {})
        for value in sorted(levels, key=float):
            word = say.words(criterion.get("levels", {}).get(value), "")
            label = say.words(criterion.get("label"), name)
            rows.append((label, f"{value} {word}".strip(), say.count(levels[value])))
    head = (say("Criterion", "标准"), say("Level", "等级"), say("Labels", "标签数"))
    return Table(say("Labels by criterion and level", "各标准、各等级的标签数"), head, rows, frozenset({2}))


def _counted(
    heading: str, counts: Mapping[str, int], whole: int, say: Voice, called: Mapping[str, str]
) -> Table:
    """``called``: what the names are in words, where they are not words themselves."""
    rows = [
        (called.get(name, name) or UNDEFINED, say.count(n), f"{100 * n / whole:.1f}")
        for name, n in counts.items()
    ]
    return Table(heading, (heading, say("Labels", "标签数"), "%"), rows, frozenset({1, 2}))


def _dimensions(manifest: Manifest, say: Voice) -> dict[str, str]:
    """The dimensions in the guidelines' words."""
    known = dimensions_of(manifest["guidelines"])
    return {name: say.words(one["label"], name) for name, one in known.items()}


def _subcomponents(manifest: Manifest, say: Voice) -> Iterable[Table]:
    known, called = dimensions_of(manifest["guidelines"]), _dimensions(manifest, say)
    rows = []
    for dimension, parts in manifest["counts"]["by_subcomponent"].items():
        of = known.get(dimension, {}).get("subcomponents", ())
        words = {one["name"]: say.words(one["label"], one["name"]) for one in of}
        rows += [
            (called.get(dimension, dimension) or UNDEFINED, words.get(part, part) or UNDEFINED, say.count(n))
            for part, n in parts.items()
        ]
    if any(part != UNDEFINED for _dimension, part, _n in rows):
        name = say("Subcomponent", "子类")
        yield Table(name, (say("Dimension", "维度"), name, say("Labels", "标签数")), rows, frozenset({2}))


SPLITS = {"train": ("training", "训练"), "validation": ("validation", "验证"), "test": ("test", "测试")}


def _splits(splits: Mapping[str, Mapping[str, int]], say: Voice) -> Table:
    rows = [
        (f"{say(*SPLITS[name])} ({name})", *(say.count(of[kind]) for kind in ("prompts", "rows", "labels")))
        for name, of in splits.items()
    ]
    head = (say("Split", "划分"), say("Prompts", "提示"), say("Responses", "回复"), say("Labels", "标签数"))
    return Table(say("Splits by prompt", "按提示划分"), head, rows, frozenset({1, 2, 3}))


def _same_texts(manifest: Manifest, say: Voice) -> Iterable[Paragraph]:
    for warning in manifest.get("warnings", ()):
        if warning["kind"] == "same_text":
            yield Paragraph(
                say(
                    "Mind the prompts that share a text with another one, but for case, width and white space: "
                    "{prompts}, with {texts} different texts; texts that stand in more than one split: {parted}.",
                    "请注意与别的提示文本相同的提示（不计大小写、全半角和空白）：{prompts} 条，"
                    "共 {texts} 段不同的文本；同时出现在多个划分中的文本：{parted} 段。",
                    prompts=say.count(warning["prompts"]),
                    texts=say.count(warning["texts"]),
                    parted=say.count(warning["texts_across_splits"]),
                )
            )


def _collection(manifest: Manifest, say: Voice) -> Iterable[Paragraph | Table]:
    yield from (Paragraph(text) for text in _origins(manifest, say))
    yield Paragraph(
        say(
            "Where all annotators of a response agreed, or differed by no more than the tolerance, the label was "
            "settled; everything else went to an adjudicator who is none of them. No majority settles anything.",
            "一个回复的所有标注员意见一致，或差别不超过容差时，标签即告确定；其余一律交给未参与标注的仲裁员。"
            "任何标签都不以多数票决定。",
        )
    )
    if files := (manifest.get("imported") or {}).get("files"):
        yield _files(files, say)
    if protocol := manifest.get("protocol"):
        yield _policies(protocol, manifest.get("imported"), say)
        yield _work(protocol, say)
    else:
        yield Paragraph(say("Batches: {names}.", "批次：{names}。", names=say.joined(manifest["batches"])))


def _pairing(one: Mapping[str, Any], say: Voice) -> str:
    return say(*PAIRINGS[one["pairing"]]) if one["pairing"] in PAIRINGS else one["pairing"]


def _origins(manifest: Manifest, say: Voice) -> Iterable[str]:
    """How the annotations came about: blindness is said of those alone that were given here."""
    imported, people = manifest.get("imported"), manifest.get("people")
    worked = say(
        "Each response was handed to the number of annotators that its batch asks for. They worked without knowing "
        "whose response it was, who else judged it and what the others said.",
        "每个回复交给其批次所要求的若干标注员。他们不知道回复出自哪个模型，不知道还有谁在评判，也看不到别人的结果。",
    )
    if imported is None:
        yield say(
            "Whether annotations were imported is not recorded; the following holds of those given here. {worked}",
            "未记录是否有标注是导入的；以下只适用于在此完成的标注。{worked}",
            worked=worked,
        )
        return
    n = imported["annotations"]
    given_here = people["annotations"] - n if people else None
    if n or imported["adjudications"]:
        yield _imported(imported, given_here, say)
    if given_here or not n:
        yield say("Given here: {worked}", "在此完成的标注：{worked}", worked=worked) if n else worked


def _imported(imported: Mapping[str, Any], given_here: int | None, say: Voice) -> str:
    amounts = {
        "here": UNDEFINED if given_here is None else say.count(given_here),
        "n": say.count(imported["annotations"]),
        "decisions": say.count(imported["adjudications"]),
    }
    return say(
        "Imported from files: {n} of the annotations, {decisions} of the decisions of adjudicators; annotations "
        "given here: {here}. The imported ones were made elsewhere: whether those who made them knew whose "
        "response it was or what the others said is not recorded here; each name in a file counts as one person.",
        "从文件导入：标注 {n} 份，仲裁决定 {decisions} 份；在此完成的标注：{here} 份。导入的部分是在别处完成的："
        "完成者是否知道回复出自哪个模型、是否看到过别人的结果，此处均无记录；文件中每个名字按一人计。",
        **amounts,
    )


def _files(files: Sequence[Mapping[str, Any]], say: Voice) -> Table:
    rows = [
        (
            one["file"],
            one["format"],
            one["sha256"][:16],
            one["batch"],
            *(say.count(one[name]) for name in ("annotations", "adjudications")),
        )
        for one in files
    ]
    head = (
        say("File", "文件"),
        say("Format", "格式"),
        "sha256",
        say("Batch", "批次"),
        say("Annotations", "标注数"),
        say("Decisions", "仲裁数"),
    )
    return Table(say("Imported labels", "导入的标签"), head, rows, frozenset({4, 5}))


def _policies(protocol: Sequence[Mapping[str, Any]], imported: Mapping[str, Any] | None, say: Voice) -> Table:
    rows = [
        (
            one["name"],
            f"{one['guideline']}@{one['guideline_version']}",
            str(one["overlap"]),
            _pairing(one, say) if worked else UNDEFINED,
            f"{one['tolerance']:g}",
            _days(one["first_submitted"], one["last_submitted"]) if worked else UNDEFINED,
        )
        for one in protocol
        # Of a batch that was imported whole, nobody was given anything, and the days are those of the import.
        for worked in [imported_into(one["name"], imported) < max(1, one["annotations"])]
    ]
    head = (
        say("Batch", "批次"),
        say("Guideline", "标注指南"),
        say("Annotators for each response", "每个回复的标注人数"),
        say("Pairing", "分配方式"),
        say("Tolerance", "容差"),
        say("Submitted", "提交日期"),
    )
    return Table(say("How it was worked on", "工作方式"), head, rows, frozenset({2, 4}))


def _days(first: str | None, last: str | None) -> str:
    if first is None or last is None:
        return UNDEFINED
    return first if first == last else f"{first} – {last}"


PAIRINGS = {
    "pool": ("anybody of the pool", "公共池：池中任何人"),
    "fixed": ("named pairs", "固定搭档"),
    "balanced": ("every pair as often", "各对均衡"),
}
STATES = {
    "agreed": ("Agreed", "一致"),
    "adjudicated": ("Adjudicated", "已仲裁"),
    "disputed": ("Disputed still", "仍有争议"),
    "open": ("Open", "未完成"),
    "withdrawn": ("Withdrawn", "已撤下"),
}


def _work(protocol: Sequence[Mapping[str, Any]], say: Voice) -> Table:
    rows = [
        (
            one["name"],
            *(say.count(one["tasks"][state]) for state in STATES),
            *(say.count(one[name]) for name in ("annotations", "annotators", "adjudicators")),
        )
        for one in protocol
    ]
    head = (
        say("Batch", "批次"),
        *(say(*words) for words in STATES.values()),
        say("Annotations", "标注数"),
        say("Annotators", "标注员"),
        say("Adjudicators", "仲裁员"),
    )
    return Table(
        say("Tasks by state when the release was cut", "发布生成时各状态的任务数"),
        head,
        rows,
        frozenset(range(1, len(head))),
    )


def _people(manifest: Manifest, say: Voice) -> Iterable[Paragraph | Table]:
    if (people := manifest.get("people")) is None:
        return
    yield Paragraph(
        say(
            "Annotators: {annotators}; adjudicators: {adjudicators}; annotations handed in: {annotations}. "
            "Nobody is named here, nor in any file unless whoever exports it asks for names and may.",
            "标注员：{annotators} 人；仲裁员：{adjudicators} 人；提交的标注：{annotations} 份。此处不列姓名；"
            "任何文件也不含姓名，除非有权限的导出者要求。",
            annotators=say.count(people["annotators"]),
            adjudicators=say.count(people["adjudicators"]),
            annotations=say.count(people["annotations"]),
        )
    )
    if people["languages"]:
        rows = [(name, say.count(n)) for name, n in people["languages"].items()]
        if people["languages_unknown"]:
            rows.append((say("not said", "未说明"), say.count(people["languages_unknown"])))
        head = (say("Language", "语言"), say("Annotators", "标注员"))
        yield Table(say("What the annotators read", "标注员能阅读的语言"), head, rows, frozenset({1}))
    else:
        yield Paragraph(
            say("None of them has said which languages they read.", "没有标注员说明自己能阅读哪些语言。")
        )


def _agreement(manifest: Manifest, say: Voice) -> Iterable[Paragraph | Table]:
    if not manifest.get("agreement"):
        return
    yield Paragraph(
        say(
            "Between annotators, over the tasks that had all their annotations; in brackets the 95% interval of a "
            "bootstrap over tasks. “-” is undefined, as where all labels are the same.",
            "标注员之间的一致性，按标注已齐的任务计算；方括号内为对任务自助抽样所得的 95% 区间。"
            "“-”表示无定义，例如所有标签都相同。",
        )
    )
    yield _agreement_table(manifest, say)


def _agreement_table(manifest: Manifest, say: Voice) -> Table:
    measured = {c["name"]: c["measurement"] for g in manifest["guidelines"] for c in g.get("criteria", ())}
    labels = {c["name"]: c["label"] for g in manifest["guidelines"] for c in g.get("criteria", ())}
    dimensions = _dimensions(manifest, say)
    told = []
    for row in manifest["agreement"]:
        alpha = f"alpha_{measured.get(row['criterion'], 'nominal')}"
        criterion = row["criterion"]
        told.append(
            (
                row["guideline"],
                say("all together", "合计")
                if criterion is None
                else say.words(labels.get(criterion), criterion),
                _group(row["group"], dimensions, say),
                say.count(row["n"]),
                say.count(row["disputed"]),
                *(statistic(row.get(name)) for name in ("percent_agreement", alpha, "gwet_ac1")),
            )
        )
    head = (
        say("Guideline", "标注指南"),
        say("Criterion", "标准"),
        say("Of", "范围"),
        say("Tasks", "任务"),
        say("Disputed", "有争议"),
        say("Agreement", "一致比例"),
        say("Krippendorff's alpha", "Krippendorff α"),
        say("Gwet's AC1", "Gwet AC1"),
    )
    return Table(say("Agreement of the annotators", "标注员的一致性"), head, told, frozenset(range(3, 8)))


def _group(group: Mapping[str, str | None], dimensions: Mapping[str, str], say: Voice) -> str:
    if not group:
        return say("all", "全部")
    return say.joined(dimensions.get(name or "", name or UNDEFINED) for name in group.values())


def statistic(one: Mapping[str, float | None] | None) -> str:
    """``0.743 [0.690, 0.790]``; “-” where it is undefined."""
    if not one or one["value"] is None:
        return UNDEFINED
    interval = "" if one["low"] is None or one["high"] is None else f" [{one['low']:.3f}, {one['high']:.3f}]"
    return f"{one['value']:.3f}{interval}"


def _adjudication(manifest: Manifest, say: Voice) -> Iterable[Paragraph | Table]:
    counts = manifest["counts"]
    yield Paragraph(
        say(
            "Labels decided by an adjudicator: {n} ({share}%).",
            "由仲裁员决定的标签：{n} 个（{share}%）。",
            n=say.count(counts["adjudicated"]),
            share=f"{100 * counts['adjudicated'] / counts['labels']:.1f}",
        )
    )
    if reasons := manifest.get("adjudication_reasons"):
        rows = [
            (say.words(one["words"], one["reason"] or say("not said", "未说明")), say.count(one["decisions"]))
            for one in reasons
        ]
        head = (say("Why the annotators differed", "标注员为何不同"), say("Decisions", "仲裁数"))
        yield Table(say("Reasons of the adjudicators", "仲裁员给出的原因"), head, rows, frozenset({1}))


def _preprocessing(manifest: Manifest, say: Voice) -> Iterable[Paragraph]:
    yield Paragraph(
        say(
            "Texts were not changed. A response is known by the sha256 of its text in Unicode's form NFC. Known items "
            "mixed in to check the annotators, withdrawn tasks and labels that were not settled yet are left out. "
            "Where one response was settled alike in two tasks it is taken once; settled differently, the release "
            "would have been refused.",
            "文本未作改动。回复以其文本（Unicode NFC 形式）的 sha256 标识。用于检查标注员的已知题目、"
            "已撤下的任务以及尚未确定的标签不在其中。同一回复在两个任务中得到相同结果时只取一次；若结果不同，发布会被拒绝。",
        )
    )
    if "splits" in manifest:
        yield Paragraph(
            say(
                "Whether a prompt is for training, validation or testing follows from the name of its dataset and from "
                "its id alone, so it is the same in every release.",
                "一条提示用于训练、验证还是测试，仅取决于其数据集名称和提示编号，因此在每个发布中都相同。",
            )
        )


def _uses(_manifest: Manifest, say: Voice) -> Iterable[Paragraph]:
    yield Paragraph(
        say(
            "It is made for training and testing programs that judge responses as these people did, and for comparing "
            "models on these prompts. Do not train on the test split, nor on any prompt that another release puts "
            "there: they are the same.",
            "它用于训练和测试像这些人一样评判回复的程序，也用于在这些提示上比较模型。不要用测试划分训练；其他发布中的测试提示也是同样这些。",
        )
    )
    yield Paragraph(
        say(
            "A label says what the guideline calls the response, not whether the response is true or lawful; where "
            "annotators often disagree (see the table), a difference between models may be one between annotators. It "
            "is not fit for judging the people who annotated, nor for teaching a model the texts themselves.",
            "标签说明指南如何归类一个回复，而不说明回复是否真实或合法；在标注员常有分歧之处（见上表），模型之间的差别可能只是标注员之间的差别。"
            "它不适合用来评价标注员，也不适合用来让模型学习这些文本本身。",
        )
    )


def _distribution(manifest: Manifest, say: Voice) -> Iterable[Paragraph]:
    yield Paragraph(
        say(
            "It is known by its sha256, {sha256}, over a canonical form of its labels; the same labels give the same "
            "hash on any machine. The manifest beside this sheet holds all of its numbers.",
            "它以其标签规范形式的 sha256 标识：{sha256}；同样的标签在任何机器上都得到同样的值。"
            "随附的清单含有全部数字。",
            sha256=manifest["sha256"],
        )
    )
    yield Paragraph(
        say(
            "The rights in prompts and responses stay with their authors; what a model's maker allows and what the "
            "source of the prompts allows is to be looked up there.",
            "提示和回复的权利仍归其作者所有；模型提供者和提示来源允许什么，请查阅其各自的规定。",
        )
    )


def _maintenance(manifest: Manifest, say: Voice) -> Iterable[Paragraph]:
    yield Paragraph(
        say(
            "Cut on {day} by Assay {version}. It is never changed and never deleted: mistakes are mended in a later "
            "release that supersedes it and says so, with the difference.",
            "由 Assay {version} 于 {day} 生成。它不会被修改或删除：差错在之后取代它的发布中修正，并列明差异。",
            day=manifest["created"][:10],
            version=manifest["code_version"],
        )
    )
    if old := manifest.get("supersedes"):
        yield Paragraph(
            say(
                "It supersedes {name} (sha256 {sha256}).",
                "它取代 {name}（sha256 {sha256}）。",
                name=old["name"],
                sha256=old["sha256"],
            )
        )


def _block(block: Paragraph | Table) -> list[str]:
    if isinstance(block, Table):
        rule = ["--:" if place in block.numbers else "---" for place in range(len(block.head))]
        rows = [[_escaped(cell) for cell in row] for row in (block.head, *block.rows)]
        lines = [rows[0], rule, *rows[1:]]
        return [f"**{_escaped(block.title)}**", "", *(f"| {' | '.join(line)} |" for line in lines)]
    if block.quoted:
        return [f"> {_line(line)}".rstrip() for line in block.text.splitlines()]
    return [_line(block.text)]


def _escaped(text: str) -> str:
    """The text so that Markdown shows it as it is, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.splitlines()))


def _line(text: str) -> str:
    """The same for a line of its own, which must not begin a list."""
    return _LIST.sub(r"\1\2\\\3", _escaped(text))
