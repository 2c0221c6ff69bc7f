"""Compares the figures of the pages with the reports of the sessions that the pages link to.

A figure is a number, or several that belong together, such as `63.0 +- 3.6 (60.8-68.0)`: all must be in one line of a
report, in this order and with their units. A single run is evidence only for figures of three digits or more. The
reports are those of its section and those that its line links to, also by way of another section; a line without links
has those of its section. Outside docs/results it has those of the nearest line above it in its section that links to
results, and a block of code with means must be in such a report, word for word. A figure about one server must be in a
line about this server. Figures that no report has stand in docs/results/figures.toml, with the words around them, or
are computed in tests/helpers/formulas.py.

`PYTHONPATH=.:proofs .venv/bin/python tests/helpers/figures.py` prints the figures that are found nowhere, how many
numbers it compared, and how many changes of a single digit it would notice."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import groupby, takewhile
from pathlib import Path
from typing import NamedTuple

from estimate.findings import tables as estimate_tables
from formulas import WATCHED, computed, predicted_kills
from intervals.__main__ import FOUND
from intervals.page import short_table, tables
from kept_reports import SESSIONS_PAGE
from watch.page import tables as watch_tables

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
EXCEPTIONS = RESULTS / "figures.toml"

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
_KINDS = {word: kind for word, (kind, _) in _UNITS.items() if kind} | {"seconds": "s", "share": "%", "CPUs": "%"}
_UNIT_WORD = re.compile(r"(?<![/\w])(?:seconds|share|CPUs|bytes|kB|MB|GB|ms|us|s|h|B)\b|(?<=_)(?:s|ms|bytes)\b|%")
_N = r"(?:(?<=[ (|])-)?(?<![\w.#])\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?!\w|\.\d|,\d)"
_U = r"(?: ?(?:%|(?:kB|MB|GB|bytes|ms|us|million|s|h|B)\b))?"
_FIGURE = re.compile(
    rf"(?P<mean>{_N})(?P<unit>{_U})(?: \+- (?P<error>{_N}))?(?P<after>{_U})(?:\*\*)?"
    rf"(?: \((?P<low>{_N})(?:-| to )(?P<high>{_N})(?P<last>{_U}))?"
)

_SHARED_UNIT = re.compile(rf"(?:(?:-|, | to | and | or |; ){_N})+(?P<unit>{_U.removesuffix('?')})")
"""The next figures, with a unit that belongs to the one before, too: `76 to 95 s`."""


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


def is_rounded(shown: Number, exact: Number, kinds: Container[str]) -> bool:
    """Whether one number is the other, rounded to its own digits. `kinds` are those that a number without a unit can
    be of: seconds, bytes or per cent."""
    (kind, factor), (other, times) = _UNITS[shown.unit], _UNITS[exact.unit]
    if kind == other:
        return _is_near(shown, factor, exact.value * times, exact.step * times)
    if other:
        return False
    if kind == "%" and _is_near(shown, 1.0, exact.value * 100, exact.step * 100):
        return True
    return kind in kinds and any(_is_near(shown, scale, exact.value, exact.step) for scale in (factor, 1.0))


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
_DETAILS = ("Server ", "Host", "The publication", "Not counted", "Warnings", "Clients")


@dataclass(frozen=True)
class Line:
    text: str
    title: str = ""
    """The title of its part of the report."""
    header: str = ""
    """The header of its table."""

    @property
    def is_detail(self) -> bool:
        """Whether it is in a part about the host, a publication or one server: evidence only for figures about that
        server."""
        return self.title.startswith(_DETAILS)

    @property
    def is_run(self) -> bool:
        """Whether it is a single run. So many have any number of one or two digits that this would be no evidence."""
        return self.title == "Every run" and self.header != ""

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(figures_in(_NO_FIGURES.sub("~", _VERSION.sub("~", self.text))))

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        return tuple(number for figure in self.figures for number in figure.numbers)

    @cached_property
    def versions(self) -> frozenset[str]:
        """The servers that it is about: named in it, or by the title of a part about a server."""
        server = self.title if self.title.startswith("Server ") else ""
        return frozenset(_VERSION.findall(f"{server} {self.text}"))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """What its numbers without a unit can be, by the words around them."""
        return frozenset(_KINDS[word] for word in _UNIT_WORD.findall(f"{self.title} {self.header} {self.text}"))

    def can_be_about(self, servers: frozenset[str]) -> bool:
        """Whether it can have a figure about some servers, or about none in particular."""
        if servers and self.versions:
            return servers <= self.versions
        return not self.is_detail

    def has(self, figure: Figure) -> bool:
        if self.is_run and all(round(abs(number.value) / number.step) < 100 for number in figure.numbers):
            return False
        # In a row of a table each number can have a column of its own.
        groups = [self.numbers] if "  " in self.text else [other.numbers for other in self.figures]
        if any(self._are_in(figure.numbers, numbers) for numbers in groups):
            return True
        return figure.is_ratio and any(
            other.is_ratio and _is_derived(figure.numbers, other.numbers) for other in self.figures
        )

    def _are_in(self, shown: Sequence[Number], numbers: Sequence[Number]) -> bool:
        """Whether all are there, in this order."""
        left = iter(numbers)
        return all(any(is_rounded(number, other, self.kinds) for other in left) for number in shown)


def _is_derived(shown: Sequence[Number], ratio: Sequence[Number]) -> bool:
    """Whether an interval is that of the inverse of a ratio, or of what is lost by it, in per cent."""
    mean, low, high = ratio
    if shown[0].unit == "%":
        lost = [Number(100 * (1 - one.value), 100 * one.step, "%") for one in (mean, high, low)]
        return all(is_rounded(*pair, ()) for pair in zip(shown, lost, strict=True))
    return low.value > 0 and all(_is_inverse(*pair) for pair in zip(shown, (mean, high, low), strict=True))


def _is_inverse(shown: Number, ratio: Number) -> bool:
    least, most = 1 / (ratio.value + ratio.step / 2), 1 / max(1e-12, ratio.value - ratio.step / 2)
    return least - shown.step / 2 <= shown.value <= most + shown.step / 2


class Lines:
    """Lines, and where each number is."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = tuple(lines)
        numbers = ((number.value, place) for place, line in enumerate(self.lines) for number in line.numbers)
        self._numbers = sorted(numbers)
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
    """Returns the lines of a report, each paragraph as one more, and each row of a table that is in several parts."""
    found, title, above = list[Line](), "", list[str]()
    for block in path.read_text("utf-8").split("\n\n"):
        lines = block.splitlines()
        if len(lines) > 1 and re.fullmatch(r"-{3,}|={3,}", lines[1]):
            title, lines, above = lines[0], lines[2:], []
        header = [*lines[:1], *takewhile(re.compile(r" +\D").match, lines[1:])]
        rows = [text for text in lines[len(header) :] if "  " in text]
        texts = [title, *(text for text in lines if text not in rows)]
        texts += [" ".join(group) for is_text, group in groupby(lines, lambda text: "  " not in text) if is_text]
        found += [Line(text, title) for text in texts]
        if title == "Every run":
            rows = [re.sub(r"^ *\d+ ", "", text) for text in rows]  # its number
        joined = list[str]()
        if above and [text.split()[0] for text in above] == [text.split()[0] for text in rows]:
            joined = [f"{one}  {more}" for one, more in zip(above, rows, strict=True)]
        found += [Line(text, title, " ".join(header)) for text in (*rows, *joined)]
        above = joined or rows
    return Lines(found)


# --- Pages

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_LINK_OUT = re.compile(r"\]\(https?:")
_SERIES = r"(?:5\.[567]|8\.[034]|9\.[017]|10\.2|10\.11|11\.[48])"
_CODE = re.compile(r"`[^`]*`")
_IGNORED = (
    re.compile(r"!?\[[^\]]*\]\(https?:[^)]*\)"),
    re.compile(r"\]\([^)]*\)"),
    _CODE,
    re.compile(r"\d{4}-\d\d-\d\d[\w.-]*"),
    _VERSION,
    re.compile(
        rf"(?<![\d.;|(-])(?<!\| )(?<!; )(?<!\d-){_SERIES}"
        r"(?![\d]|\.\d|-\d| \(\d| ?(?:s|ms|us|%|kB|MB|GB|times|\+-|to|\|)(?!\w))"
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

    @cached_property
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
    def code_blocks(self) -> Mapping[int, str]:
        """The lines of blocks of code, with the words of their block."""
        found = dict[int, str]()
        fences = [number for number, line in enumerate(self.lines) if line.startswith("```")]
        for first, last in zip(fences[::2], fences[1::2], strict=True):
            found |= dict.fromkeys(range(first, last + 1), _words(" ".join(self.lines[first + 1 : last])))
        return found

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
            if path.suffix in (".txt", ".md") and not path.match("bug*.txt") and path.parent.parent == RESULTS:
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


def read_exceptions() -> dict[str, str]:
    """Returns words of pages with figures that no report has, and their kind."""
    kinds = tomllib.loads(EXCEPTIONS.read_text("utf-8"))
    words = {words: kind for kind, section in kinds.items() for words in section["words"]}
    return words | dict.fromkeys(computed(), "computed")


# --- The comparison


@dataclass(frozen=True)
class Checked:
    page: Path
    line: int
    figure: Figure
    how: str
    """`report`, `answer` for a block of code, a kind of exception, `generated`, or empty if it was found nowhere."""
    evidence: tuple[Lines, ...] = field(repr=False)
    servers: frozenset[str]

    def would_be_found(self, figure: Figure) -> bool:
        """Whether another figure in its place were in a report, too."""
        return _is_in(figure, self.evidence, self.servers)


class Checker:
    """Knows all pages. `generated` are tables that other tests compare with what they are made of."""

    def __init__(self, pages: Mapping[Path, str], exceptions: Mapping[str, str], generated: Iterable[str]) -> None:
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
                if number in page.code_blocks:
                    yield from self._check_answer(page, section, number)
                else:
                    yield from self._check_line(page, section, number, header if line.startswith("|") else "")

    def _check_line(self, page: Page, section: Section, number: int, header: str) -> Iterator[Checked]:
        line = page.lines[number]
        figures = tuple(figures_in(cleaned(line)))
        source = number if page.path.parent == RESULTS else self._source(page, section, number)
        if source is None or not figures:
            return
        evidence = self._evidence(page, section, source, has_section_links=bool(header) or not _LINK.search(line))
        for figure in figures:
            servers = _servers_of(line, header, figure.start)
            figure = _with_unit(figure, line, header)
            how = self._exception(line, figure)
            if not how and line in self._generated:
                how = "generated"
            if not how and _is_in(figure, evidence, servers):
                how = "report"
            yield Checked(page.path, number + 1, figure, how, evidence, servers)

    def _check_answer(self, page: Page, section: Section, number: int) -> Iterator[Checked]:
        """Checks a line of a block of code. Only one with means is the answer of a session."""
        words, line = page.code_blocks[number], page.lines[number]
        if "+-" not in words:
            return
        source = self._source(page, section, number)
        reports = () if source is None else page.linked_reports(source)
        is_answer = any(words in _words(path.read_text("utf-8")) for path in reports)
        for figure in figures_in(cleaned(line)):
            how = "answer" if is_answer else self._exception(line, figure)
            yield Checked(page.path, number + 1, figure, how, (), frozenset())

    def _source(self, page: Page, section: Section, number: int) -> int | None:
        """Returns the line whose links a line has: itself, or the nearest one above it in its section that links to
        results. One that links to another site has its figures from there."""
        for place in (number, *(place for place in reversed(section.lines) if place < number)):
            if any(page.linked_reports(place)) or any(page.linked_sections(place, self.pages)):
                return place
            if place == number and _LINK_OUT.search(page.lines[number]):
                return None
        return None

    def _exception(self, line: str, figure: Figure) -> str:
        """Returns the kind of exception that a figure is, or nothing."""
        for words, kind in self.exceptions.items():
            place = line.find(words)
            while place >= 0:
                if place <= figure.start and figure.end <= place + len(words):
                    return kind
                place = line.find(words, place + 1)
        return ""

    def _evidence(self, page: Page, section: Section, number: int, *, has_section_links: bool) -> tuple[Lines, ...]:
        sections = tuple(page.linked_sections(number, self.pages))
        if page.path.parent == RESULTS:
            sections = (section, *sections)
            if has_section_links:
                sections += tuple(one for place in section.lines for one in page.linked_sections(place, self.pages))
        paths = (*page.linked_reports(number), *(path for one in sections for path in one.reports))
        found = list[Line]()
        for one in sections:
            lines = [one.page.lines[place] for place in one.lines]
            words = [words for words in self.exceptions if any(words in line for line in lines)]
            # What is excepted here is no evidence for another figure of this line.
            words = [text for text in words if one is not section or text not in page.lines[number]]
            texts = [cleaned(text) for text in words] + [line for line in lines if line in self._generated]
            found += [Line(text, header=" ".join(_UNITS)) for text in texts]
        return (*map(report_lines, dict.fromkeys(paths)), Lines(found))


def _words(text: str) -> str:
    return " ".join(text.split())


def _servers_of(line: str, header: str, place: int) -> frozenset[str]:
    """Returns the server of a row or else of a column, if it is one; of a cell that names servers itself, none."""
    column, row = line[:place].count("|"), line.split("|")
    if not header or (column > 1 and _VERSION.search(row[column])):
        return frozenset()
    named = [frozenset(_VERSION.findall(cell)) for cell in (row[1], header.split("|")[column])]
    return next((one for one in named if len(one) == 1), frozenset())


def _with_unit(figure: Figure, line: str, header: str) -> Figure:
    """Returns the figure with the unit of its column."""
    if figure.numbers[0].unit or not header:
        return figure
    unit = re.search(r", (s|ms|us|GB|MB|kB)\b", header.split("|")[line[: figure.start].count("|")])
    if unit is None:
        return figure
    return replace(figure, numbers=tuple(one._replace(unit=unit[1]) for one in figure.numbers))


def _is_in(figure: Figure, evidence: Iterable[Lines], servers: frozenset[str]) -> bool:
    is_plain = len(figure.numbers) == 1
    return any(
        line.has(figure)
        for lines in evidence
        for line in lines.near(figure)
        if not (is_plain or servers) or line.can_be_about(servers)
    )


def generated_tables() -> Iterator[str]:
    """Yields the tables that other tests compare: those of `make intervals`, of the kept sessions, and of the proofs of
    `recovery estimate` and `recovery watch`."""
    found = json.loads(FOUND.read_text())
    yield from (short_table(found), *tables(found))
    yield from estimate_tables(predicted_kills())
    yield from watch_tables(json.loads(WATCHED.read_text()))
    yield SESSIONS_PAGE.read_text("utf-8").partition("## All sessions")[2]


def read_pages() -> dict[Path, str]:
    """Returns the pages whose figures are checked."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(RESULTS.glob("*.md"))]
    return {path: path.read_text("utf-8") for path in paths}


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
