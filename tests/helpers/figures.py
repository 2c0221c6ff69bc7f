"""Compares the figures of the pages with the reports of the sessions that the pages link to.

A figure is a number, or several that belong together, such as `63.0 +- 3.6 (60.8-68.0)`: all must be in one line of a
report. The reports are those of its section and those that its line links to, also by way of another section; a line
without links has those of its section. A number in a row or column of one server must be in a line about this server.
Figures that no report has stand in docs/results/figures.toml, with the words around them, or are computed there.

`PYTHONPATH=.:tests .venv/bin/python tests/helpers/figures.py` prints the figures that are found nowhere, how many
numbers it compared, and how many changes of a single digit it would notice."""

from __future__ import annotations

import ast
import json
import operator
import re
import sys
import tomllib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from intervals.__main__ import FOUND
from intervals.page import short_table, tables
from kept_reports import SESSIONS_PAGE

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
EXCEPTIONS = RESULTS / "figures.toml"
_RECORDED = ("watch.md", "estimate.md")

# --- Numbers and figures


class Number(NamedTuple):
    value: float
    step: float
    """The value of its last digit."""
    unit: str


_UNITS = {
    "s": ("s", 1.0), "ms": ("s", 1e-3), "us": ("s", 1e-6), "h": ("s", 3600.0),
    "B": ("B", 1.0), "bytes": ("B", 1.0), "kB": ("B", 1e3), "MB": ("B", 1e6), "GB": ("B", 1e9),
    "%": ("%", 1.0), "million": ("", 1e6), "": ("", 1.0),
}  # fmt: skip
_N = r"(?:(?<=[ (|])-)?(?<![\w.#])\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?!\w|\.\d|,\d)"
_U = r"(?: ?(?:%|(?:kB|MB|GB|bytes|ms|us|million|s|h|B)\b))?"
_FIGURE = re.compile(
    rf"(?P<mean>{_N})(?P<unit>{_U})(?: \+- (?P<error>{_N}))?(?P<after>{_U})(?:\*\*)?"
    rf"(?: \((?P<low>{_N})(?:-| to )(?P<high>{_N})(?P<last>{_U}))?"
)

_SHARED_UNIT = re.compile(rf"(?:-| to | and | or ){_N}(?P<unit>{_U.removesuffix('?')})")
"""The next figure, with a unit that belongs to the one before, too: `76 to 95 s`."""


@dataclass(frozen=True)
class Figure:
    text: str
    numbers: tuple[Number, ...]
    is_ratio: bool
    """Whether it is a value with an interval, such as `0.88 (0.70-1.09)`."""
    start: int
    end: int


def figures_in(text: str) -> Iterator[Figure]:
    for match in _FIGURE.finditer(text):
        unit = (match["unit"] or match["after"] or match["last"] or "").strip()
        found = [match[name] for name in ("mean", "error", "low", "high") if match[name]]
        if not unit and (following := _SHARED_UNIT.match(text, match.end())):
            unit = following["unit"].strip()
        is_ratio = match["error"] is None and match["low"] is not None
        yield Figure(match[0], tuple(_number(one, unit) for one in found), is_ratio, *match.span())


def _number(text: str, unit: str) -> Number:
    plain, _, exponent = text.replace(",", "").partition("e")
    power = 10.0 ** int(exponent or 0)
    decimals = len(plain.partition(".")[2])
    return Number(float(plain) * power, 10.0**-decimals * power, unit)


def is_rounded(shown: Number, exact: Number) -> bool:
    """Whether one number is the other, rounded to its own digits."""
    (kind, factor), (other, times) = _UNITS[shown.unit], _UNITS[exact.unit]
    if kind == other:
        return _is_near(shown, factor, exact.value * times, exact.step * times)
    if kind and other:
        return False
    if kind == "%" and _is_near(shown, 1.0, exact.value * 100, exact.step * 100):
        return True
    if kind in ("s", "B") and _is_near(shown, factor, exact.value, exact.step):
        return True
    return _is_near(shown, 1e6 if shown.unit == "million" else 1.0, exact.value, exact.step)


def _is_near(shown: Number, factor: float, value: float, step: float) -> bool:
    own = shown.step * factor
    if step > own * 1.001:
        return False
    # What a report shows is rounded already.
    slack = own / 2 + (step / 2 if step < own * 0.999 else 0.0)
    return abs(shown.value * factor - value) <= slack * 1.0001


# --- Evidence: lines of reports

_VERSION = re.compile(r"(?<![\d.])\d{1,2}\.\d+\.\d+(?!\.?\d)")
_NO_FIGURES = re.compile(r"\d{4}-\d\d-\d\d[\w.:+-]*|sha256\S*|\b[0-9a-f]{12,}\b|\bruns? \d[\d, and]*")


@dataclass(frozen=True)
class Line:
    text: str
    about: str
    """With the title that it stands under."""
    is_detail: bool = False
    """Whether it is a fact about a host or a server, which is evidence only for figures about that server."""

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(figures_in(_NO_FIGURES.sub("~", _VERSION.sub("~", self.text))))

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        return tuple(number for figure in self.figures for number in figure.numbers)

    @cached_property
    def versions(self) -> frozenset[str]:
        return frozenset(_VERSION.findall(self.about))

    def has(self, figure: Figure) -> bool:
        if all(any(is_rounded(number, other) for other in self.numbers) for number in figure.numbers):
            return True
        return figure.is_ratio and any(
            other.is_ratio and _is_derived(figure.numbers, other.numbers) for other in self.figures
        )


def _is_derived(shown: Sequence[Number], ratio: Sequence[Number]) -> bool:
    """Whether an interval is that of the inverse of a ratio, or of what is lost by it, in per cent."""
    mean, low, high = ratio
    if shown[0].unit == "%":
        lost = [Number(100 * (1 - one.value), 100 * one.step, "%") for one in (mean, high, low)]
        return all(map(is_rounded, shown, lost))
    return low.value > 0 and all(_is_inverse(*pair) for pair in zip(shown, (mean, high, low), strict=True))


def _is_inverse(shown: Number, ratio: Number) -> bool:
    least, most = 1 / (ratio.value + ratio.step / 2), 1 / max(1e-12, ratio.value - ratio.step / 2)
    return least - shown.step / 2 <= shown.value <= most + shown.step / 2


_DETAILS = ("Server ", "Host", "The publication")


class Lines:
    """Lines, and where each number is."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = tuple(lines)
        self._numbers = sorted(
            (number.value, place) for place, line in enumerate(self.lines) for number in line.numbers
        )
        self._ratios = [line for line in self.lines if any(figure.is_ratio for figure in line.figures)]

    def near(self, figure: Figure) -> Iterator[Line]:
        """Yields the lines that can have a figure."""
        first = figure.numbers[0]
        places = set[int]()
        for scale in _scales(first.unit):
            low, high = sorted((first.value * scale - first.step * scale, first.value * scale + first.step * scale))
            start, end = bisect_left(self._numbers, (low, -1)), bisect_left(self._numbers, (high, len(self.lines)))
            places.update(place for _, place in self._numbers[start:end])
        yield from (self.lines[place] for place in sorted(places))
        if figure.is_ratio:
            yield from self._ratios


@cache
def _scales(unit: str) -> frozenset[float]:
    """Returns by what a number is multiplied in other units."""
    kind, factor = _UNITS[unit]
    return frozenset((1.0, factor, 0.01, *(factor / times for other, times in _UNITS.values() if other == kind)))


@cache
def report_lines(path: Path) -> Lines:
    """Returns the lines of a report, and each paragraph as one more."""
    lines = path.read_text("utf-8").splitlines()
    found, title, paragraph = [], "", ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if re.fullmatch(r"-{3,}|={3,}", following):
            title = line
        if title == "Every run":
            line = re.sub(r"^ *\d+ ", "", line)  # its number
        about = f"{title} {line}" if title.startswith("Server ") else line
        found.append(Line(line, about, title.startswith(_DETAILS)))
        if line and "  " not in line:
            paragraph = f"{paragraph} {line}".strip()
        else:
            found += [Line(paragraph, paragraph, title.startswith(_DETAILS))] if paragraph else []
            paragraph = ""
    return Lines((*found, Line(paragraph, paragraph)) if paragraph else found)


# --- Pages

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SERIES = r"(?:5\.[567]|8\.[04]|9\.[017]|10\.2|10\.11|11\.[48])"
_CODE = re.compile(r"`[^`]*`")
_IGNORED = (
    re.compile(r"!?\[[^\]]*\]\(https?:[^)]*\)"),
    re.compile(r"\]\([^)]*\)"),
    _CODE,
    re.compile(r"\d{4}-\d\d-\d\d[\w.-]*"),
    _VERSION,
    re.compile(
        rf"(?<![\d.;|(-])(?<!\| )(?<!; )(?<!\d-){_SERIES}"
        r"(?![\d]|\.\d|-\d| ?(?:s|ms|us|%|kB|MB|GB|times|\+-|\(|to|\|)(?!\w))"
    ),
    re.compile(r"\b\d{1,2}(?:(?:, | to | and )\d{1,2})* November(?: \d{4})?"),
    re.compile(r"\b\d\d:\d\d\b"),
    re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b"),
    re.compile(r"\b[A-Za-z]+[-#]v?\d+"),
    re.compile(r"\d+ [KMG]iB"),
)  # fmt: skip


def cleaned(line: str) -> str:
    """Returns a line of a page in which all that is no figure has become tildes: code, links, versions, dates."""
    for pattern in _IGNORED:
        line = pattern.sub(lambda match: "~" * len(match[0]), line)
    return line


@dataclass(frozen=True)
class Section:
    page: Page
    anchor: str
    level: int
    parent: Section | None
    lines: list[int] = field(default_factory=list)

    @property
    def reports(self) -> tuple[Path, ...]:
        """Returns the reports that it links to, with those of what it is in; of a section without any, those of the
        page."""
        own: list[Path] = []
        section: Section | None = self
        while section is not None:
            own += [path for number in section.lines for path in self.page.linked_reports(number)]
            section = section.parent
        return tuple(dict.fromkeys(own)) or self.page.reports


@dataclass(frozen=True, eq=False)
class Page:
    path: Path
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        found = [Section(self, "", 0, None)]
        for number, line in enumerate(self.lines):
            if heading := re.match(r"(#+) (.*)", line):
                level = len(heading[1])
                parent = next((one for one in reversed(found) if 0 < one.level < level), None)
                anchor = re.sub(r"[^\w -]", "", heading[2].lower()).replace(" ", "-")
                found.append(Section(self, anchor, level, parent))
            else:
                found[-1].lines.append(number)
        return tuple(found)

    @cached_property
    def reports(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(path for number in range(len(self.lines)) for path in self.linked_reports(number)))

    def linked_reports(self, number: int) -> Iterator[Path]:
        for target in _LINK.findall(self.lines[number]):
            path = (self.path.parent / target.partition("#")[0]).resolve()
            if path.suffix in (".txt", ".md") and path.parent.parent == RESULTS:
                yield path

    def linked_sections(self, number: int, pages: Mapping[Path, Page]) -> Iterator[Section]:
        """Yields the sections of results that a line links to, with all below them."""
        for target in _LINK.findall(self.lines[number]):
            name, _, anchor = target.partition("#")
            page = pages.get((self.path.parent / name).resolve() if name else self.path)
            if page is None or page.path.parent != RESULTS:
                continue
            inside = 0
            for section in page.sections:
                if not anchor or section.anchor == anchor:
                    inside = section.level or 1
                    yield section
                elif inside and section.level > inside:
                    yield section
                else:
                    inside = 0


@dataclass(frozen=True)
class Exceptions:
    """The figures that no report has."""

    words: Mapping[str, tuple[str, ...]]
    """By their kind: words of a page, with figures."""
    computed: Mapping[str, tuple[str, ...]]
    """Words with figures, and the formula of each of them."""

    @property
    def all(self) -> tuple[str, ...]:
        return (*(words for ones in self.words.values() for words in ones), *self.computed)


def read_exceptions(path: Path = EXCEPTIONS) -> Exceptions:
    read = tomllib.loads(path.read_text("utf-8"))
    computed = read.pop("computed", {})
    formulas = {words: tuple([one] if isinstance(one, str) else one) for words, one in computed.items()}
    return Exceptions({kind: tuple(ones["words"]) for kind, ones in read.items()}, formulas)


_OPERATORS: Mapping[type, Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def result(formula: str) -> float:
    """Computes a formula of numbers."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        assert isinstance(node, ast.Constant), formula
        assert isinstance(node.value, int | float), formula
        return node.value

    return value(ast.parse(formula, mode="eval").body)


# --- The comparison


@dataclass(frozen=True)
class Checked:
    page: Path
    line: int
    figure: Figure
    how: str
    """`report`, a kind of exception, `generated`, or empty if it was found nowhere."""
    evidence: tuple[Lines, ...] = field(repr=False)
    server: str

    def would_be_found(self, figure: Figure) -> bool:
        """Whether another figure in its place were in a report, too."""
        return _is_in(figure, self.evidence, self.server)


class Checker:
    """Knows all pages. `generated` are tables that other tests compare with what they are made of."""

    def __init__(self, pages: Mapping[Path, str], exceptions: Exceptions, generated: Iterable[str]) -> None:
        self.pages = {path: Page(path, text) for path, text in pages.items()}
        self.exceptions = exceptions
        self._generated = {row for table in generated for row in table.splitlines()}

    def check(self, path: Path) -> Iterator[Checked]:
        page = self.pages[path]
        for section in page.sections:
            header = ""
            for number in section.lines:
                line = page.lines[number]
                before = page.lines[number - 1] if number else ""
                header = line if line.startswith("|") and not before.startswith("|") else header
                yield from self._check_line(page, section, number, header if line.startswith("|") else "")

    def _check_line(self, page: Page, section: Section, number: int, header: str) -> Iterator[Checked]:
        line = page.lines[number]
        linked = tuple(page.linked_sections(number, self.pages))
        if page.path.parent == RESULTS and (header or not _LINK.search(line)):
            linked += tuple(one for place in section.lines for one in page.linked_sections(place, self.pages))
        if page.path.parent != RESULTS and not linked and not any(page.linked_reports(number)):
            return
        if _is_fenced(page.lines, number):
            return
        excepted = tuple(self._excepted(line))
        evidence = self._evidence(page, section, number, linked)
        for figure in figures_in(cleaned(line)):
            server = _server_of(line, header, figure.start)
            how = next((kind for start, end, kind in excepted if start <= figure.start and figure.end <= end), "")
            if not how and line in self._generated:
                how = "generated"
            if not how and _is_in(figure, evidence, server):
                how = "report"
            yield Checked(page.path, number + 1, figure, how, evidence, server)

    def _excepted(self, line: str) -> Iterator[tuple[int, int, str]]:
        kinds = {words: kind for kind, ones in self.exceptions.words.items() for words in ones}
        for words in self.exceptions.all:
            place = line.find(words)
            while place >= 0:
                yield place, place + len(words), kinds.get(words, "computed")
                place = line.find(words, place + 1)

    def _evidence(self, page: Page, section: Section, number: int, linked: Sequence[Section]) -> tuple[Lines, ...]:
        sections = (section, *linked) if page.path.parent == RESULTS else linked
        paths = (*page.linked_reports(number), *(path for one in sections for path in one.reports))
        found = list[Line]()
        for one in sections:
            lines = [one.page.lines[place] for place in one.lines]
            words = [words for words in self.exceptions.all if any(words in line for line in lines)]
            # What is excepted here is no evidence for another figure of this line.
            words = [text for text in words if one is not section or text not in page.lines[number]]
            texts = [cleaned(text) for text in words] + [line for line in lines if line in self._generated]
            found += [Line(text, text) for text in texts]
        return (*map(report_lines, dict.fromkeys(paths)), Lines(found))


def _is_fenced(lines: Sequence[str], number: int) -> bool:
    return lines[number].startswith("```") or sum(line.startswith("```") for line in lines[:number]) % 2 == 1


def _server_of(line: str, header: str, place: int) -> str:
    """Returns the server of a row or else of a column, if it is one."""
    if not header:
        return ""
    column = line[:place].count("|")
    for cell in (line.split("|")[1], header.split("|")[column]):
        if len(found := set(_VERSION.findall(cell))) == 1:
            return str(*found)
    return ""


def _is_in(figure: Figure, evidence: Iterable[Lines], server: str) -> bool:
    is_plain = len(figure.numbers) == 1
    return any(
        line.has(figure)
        for lines in evidence
        for line in lines.near(figure)
        if not is_plain or (server in line.versions or not line.versions if server else not line.is_detail)
    )


def generated_tables() -> Iterator[str]:
    """Yields the tables that tests/test_intervals.py and tests/storage/test_stored_sessions.py compare."""
    found = json.loads(FOUND.read_text())
    yield from (short_table(found), *tables(found))
    yield SESSIONS_PAGE.read_text("utf-8").partition("## All sessions")[2]


def read_pages() -> dict[Path, str]:
    """Returns the pages whose figures are checked. Two stand on recorded starts, which are no sessions."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(RESULTS.glob("*.md"))]
    return {path: path.read_text("utf-8") for path in paths if path.name not in _RECORDED}


def changed(figure: Figure) -> Iterator[Figure]:
    """Yields the figure with another last digit in one of its numbers."""
    for place, number in enumerate(figure.numbers):
        for step in (-number.step, number.step):
            other = number._replace(value=number.value + step)
            yield replace(figure, numbers=(*figure.numbers[:place], other, *figure.numbers[place + 1 :]))


def main() -> None:
    checker = Checker(read_pages(), read_exceptions(), generated_tables())
    counts = Counter[str]()
    noticed = Counter[bool]()
    for path in checker.pages:
        for one in checker.check(path):
            counts[one.how or "found nowhere"] += len(one.figure.numbers)
            if one.how == "report":
                noticed.update(not one.would_be_found(other) for other in changed(one.figure))
            if not one.how:
                line = checker.pages[path].lines[one.line - 1]
                near = line[max(0, one.figure.start - 40) : one.figure.end + 30]
                sys.stdout.write(f"{path.relative_to(ROOT)}:{one.line}: {one.figure.text}    ...{near}...\n")
    sys.stdout.write(f"{counts.total()} numbers: {dict(counts)}\n")
    sys.stdout.write(f"of {noticed.total()} changes of a last digit of those in reports {noticed[True]} are noticed\n")


if __name__ == "__main__":
    main()
