"""README.md and the pages of docs/: links have targets, and commands are valid, and run as shown, with few tables."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest
from sessions import as_a_user, left_out, need_limits

from recovery import errors
from recovery.analysis import phase_names, warnings
from recovery.cli.commands import EXAMPLES
from recovery.cli.main import cli, run
from recovery.cli.measure import NOT_OF_REQUEST
from recovery.cli.measuring_command import MeasuringCommand
from recovery.cli.options import BY_NAME, OPTIONS, PREFIX, SETTING_NAMES, Group, refuse_unused_variables
from recovery.cli.parse import make_request
from recovery.model import OwnData, parse_version

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
PAGES_OF_DOCS = [*PAGES, *sorted((ROOT / "docs" / "results").glob("*.md"))]
ALL_PAGES = [*sorted(ROOT.glob("*.md")), *PAGES_OF_DOCS]
CURRENT_PAGES = [page for page in ALL_PAGES if page.name != "CHANGELOG.md"]
"""The pages without the one that also names commands that are gone."""
SETTING_ITEM = re.compile(r"^\* `[A-Z_]+`")
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:\$ )?((?:make|recovery|lsblk|mkfs.ext4|mkdir|mount|dd|zcat|docker/recovery) .*)")
TABLES, SHARES_DATA = 100, True
LOG = ROOT / "fixtures" / "errorlogs" / "mysql-5.7.22-crash.err"
OPTIONS_FILE = str(ROOT / "fixtures" / "my.cnf")
VOLUME = "/dev/nvme1n1"
# Commands that a test host cannot run, or that another test runs.
ELSEWHERE = {
    "VERSION=5.7.9": "tests/real/test_builds_real.py, from a mirror of the vendor's archive",
    "MYSQLD=/usr/sbin/mysqld": "tests/real/test_end_to_end.py",
    "BASELINE=base": "tests/real/test_end_to_end.py",
    "DEFAULTS_FILE=/etc/mysql/my.cnf": "tests/mysqld/test_defaults_file.py",
    "DATADIR=/var/lib/mysql": "tests/real/test_own_data_real.py",
    "DATADIR=/snapshot/mysql": "tests/real/test_own_data_real.py",
    "ARGS=/var/log/mysql/error.log": "tests/cli/test_cli.py",
    "IMAGE=my/mysql:patched": "tests/containers",
    "docker/recovery": "tests/containers/test_tool_image.py",
    "LAYOUT=encrypted": "tests/real/test_layouts_real.py, with a plugin that it fetches",
    "bench": "tests/real/test_selfbench_real.py",
    "fuzz": "tests/test_fuzzed.py",
    "fuzz-corpora": "tests/test_fuzzed.py",
    "crash-matrix": "tests/real/test_crash_real.py",
    "damage": "tests/real/test_crash_real.py",
}


def test_the_tests_that_run_other_commands_are_there() -> None:
    assert [path for path in ELSEWHERE.values() if not (ROOT / path.partition(",")[0]).exists()] == []


# The sizes of experiments. The redo log of loads has a gigabyte otherwise, which is written for every data directory.
QUICK = {"SCALE": "quick", "SET": "innodb_redo_log_capacity=16M"}
QUICK_LOAD = {**QUICK, "SECONDS": "1", "WARMUP": "1"}
QUICK_EXPERIMENTS = {
    "metadata": QUICK, "interference": QUICK_LOAD, "table-cache": QUICK_LOAD, "write-scaling": QUICK_LOAD,
    "experiments": {**QUICK, "VERSION": "5.7.22", "TABLES": str(TABLES), "SECONDS": "1"},
}  # fmt: skip


def commands(page: Path) -> list[str]:
    blocks = FENCED.findall(page.read_text(encoding="utf-8"))
    lines = (match[1] for block in blocks for match in map(COMMAND.match, block.splitlines()) if match)
    found = [line.split("  #")[0].strip() for line in lines]
    return [command for command in found if not ELSEWHERE.keys() & set(shlex.split(command))]


WITH_COMMANDS = [page for page in PAGES if commands(page)]
NOT_RUN = ("make test", "make experiments", "make watch", 'make estimate ARGS="--socket /run/mysqld/mysqld.sock"')
"""The second is on the page of experiments, too; the third finds the servers of other tests, and the last needs one:
see test_watch_real.py and test_estimate_real.py."""
README_COMMANDS = [command for command in commands(README) if command.startswith("make ") and command not in NOT_RUN]
MEASURING = [one for one in README_COMMANDS if one.split()[1].endswith(("recovery", "clean-start", "scale"))]
MEASURED = "make cold-recovery VERSION=5.7.22 TABLES=20000 RUNS=3"
PLANNED = [one for one in MEASURING if one != MEASURED and "--dry-run" not in one]
"""`make test` only shows what these would measure; `make test-docs` runs them."""


def test_there_are_pages_with_commands() -> None:
    names = {page.name for page in WITH_COMMANDS}
    assert {"tutorial.md", "using.md", "causes.md", "ci.md", "host.md", "sharing.md"} <= names
    assert len(README_COMMANDS) >= 5
    indented = re.compile(r"^    (make|recovery) ", re.MULTILINE)
    assert not [page.name for page in PAGES if indented.search(page.read_text(encoding="utf-8"))], "not in a fence"
    assert MEASURED in MEASURING


@pytest.mark.parametrize("phase", phase_names.ORDER)
def test_the_answer_leads_to_a_section_about_the_phase(phase: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = phase_names.advice_on(phase)
    assert phase_names.advice_on(f"{phase}{phase_names.JOIN}{phase}") == command
    assert run(shlex.split(command)[1:]) == 0
    printed = capsys.readouterr().out
    heading, text = printed.split("\n\n", 1)
    assert command == f"recovery docs shorten#{heading.removeprefix('## ').lower().replace(' ', '-')}"
    assert text.strip() in (ROOT / "docs" / "shorten.md").read_text(encoding="utf-8")
    assert "\n## " not in text


def test_every_section_that_a_page_links_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Also by the text of the link."""
    assert run(["docs"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {f"{name}.md" for name in names} == {str(page.relative_to(ROOT / "docs")) for page in PAGES_OF_DOCS}
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([\w/-]+\.md)#([^)]+)\)", page.read_text(encoding="utf-8")):
            assert run(["docs", f"docs/{target}#{anchor}"]) == 0
            heading = capsys.readouterr().out.splitlines()[0]
            assert re.fullmatch(r"##+ .+", heading), f"{target}#{anchor}"
    assert run(["docs", "shorten", "using#exit-codes"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith((ROOT / "docs" / "shorten.md").read_text(encoding="utf-8"))
    assert printed.endswith("kept\n")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("shortn", "there is no page shortn\nhint:  did you mean shorten?"),
        ("../README", "there is no page ../README\nhint:  did you mean README?"),
        ("zzz", "there is no page zzz\nhint:  `recovery docs` lists them"),
        ("shorten#reddo", "the page shorten has no section reddo\nhint:  did you mean shorten#redo?"),
        ("shorten#zzz", "the page shorten has no section zzz\nhint:  there are: what-shortens-a-start, in-general"),
    ],
)
def test_the_nearest_page_and_section_are_offered(given: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", given]) == 2
    assert message in capsys.readouterr().err


def test_the_pages_stay_short() -> None:
    for pages, limit in (([README], 500), (PAGES, 12_600)):
        words = {page.name: prose_words(page) for page in pages}
        found = sum(words.values())
        assert found <= limit, f"{found:,} words, {limit:,} are allowed: shorten or replace something ({words})"


def prose_words(page: Path) -> int:
    """Counts a page's words without commands and screens, and without its list of settings, in which each item begins
    with names in capitals."""
    lines = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE).splitlines()
    return sum(len(line.split()) for line in lines if not SETTING_ITEM.match(line))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_links_have_targets(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        linked = page.parent / target if target else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


# --- Every command, option and setting that a page names is valid


ANY_COMMAND = re.compile(r"(?:RECOVERY_\w+=\S+ )*(?:make|recovery|docker/recovery) .+")
OF_OTHERS = {"ARGS", "DOCKER_HOST", "KILLS", "MINUTES", "EXECUTIONS", "TERM", "NO_COLOR", "--help", "--name",
             "--skip-lock-tables", "--build-arg", "--log-error"}  # fmt: skip
"""Variables of make and of a terminal, and options of other programs."""


def codes(page: Path) -> list[str]:
    """What is shown as code in the sentences of a page."""
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", FENCED.sub("", page.read_text("utf-8")))]


def shown_commands(page: Path) -> Iterator[str]:
    """Yields each command of a page, in blocks and in sentences, without comments, pipes and redirections."""
    lines = [line for block in FENCED.findall(page.read_text("utf-8")) for line in block.splitlines()]
    for line in [*lines, *codes(page)]:
        for part in re.split(r" [|>] ", line.split("  #")[0].removeprefix("$ ")):
            if ANY_COMMAND.fullmatch(part):
                yield part.strip()


def words_and_settings(command: str) -> tuple[list[str] | None, list[str]]:
    """Returns what follows `recovery` in this command, and its variables. The words are None for a target of make that
    runs something else. Placeholders are left out: `[SESSION]`, `FILE…`."""
    words = [word for word in shlex.split(command) if not word.endswith("…") and not word.startswith("[")]
    settings = [word.removeprefix(PREFIX) for word in words if word.startswith(PREFIX)]
    words = words[len(settings) :]
    if words[0] != "make":
        return words[1:], settings
    shown = subprocess.run(
        ["make", "-n", *words[1:]], cwd=ROOT, env=as_a_user(), capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    found = re.search(r"^RECOVERY_ARGS=\S+ \.venv/bin/recovery (.+)$", shown.stdout, re.MULTILINE)
    settings = [word for word in words[2:] if not word.startswith("ARGS=")]
    more = [word.removeprefix("ARGS=") for word in words[2:] if word.startswith("ARGS=")]
    return (shlex.split(" ".join([found[1], *more])) if found else None), settings


def examined(path: Path, _: object, *, as_is: bool) -> OwnData:
    """What a data directory that no host has would hold."""
    return OwnData(path, as_is, parse_version("8.0.31"), True, 1, 9, 9, 99, 999, "", (("innodb_page_size", "16384"),))


def parse(words: list[str] | None, settings: list[str]) -> None:
    """Parses a command line as the tool does, up to the request of what it would measure. Not every host that runs the
    tests has the server's options file."""
    if words is None:
        return
    words = [OPTIONS_FILE if word == "/etc/mysql/my.cnf" else word for word in words]
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(PREFIX)]:
            patch.delenv(name)
        patch.setattr("recovery.cli.parse.examine", examined)
        for setting in settings:
            name, _, value = setting.partition("=")
            assert name.lower() in BY_NAME, f"there is no setting {name}"
            patch.setenv(BY_NAME[name.lower()].variable, OPTIONS_FILE if name == "DEFAULTS_FILE" else value)
        command: click.Command = cli
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            _, found, words = command.resolve_command(click.Context(command), words)
            assert found is not None
            command = found
        refuse_unused_variables(os.environ, command)
        with suppress(click.exceptions.Exit):  # of --help and --version
            given = command.make_context(str(command.name), words).params
            if isinstance(command, MeasuringCommand):
                for beside in NOT_OF_REQUEST:
                    given.pop(beside)
                make_request(str(command.name), given)


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=name_of)
def test_every_command_of_a_page_is_valid(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recovery.cli.values.shutil.which", str)  # this host need not have the programs
    wrong = []
    for command in dict.fromkeys(shown_commands(page)):
        try:
            parse(*words_and_settings(command))
        except (AssertionError, ValueError, errors.RecoveryError, click.ClickException) as error:
            wrong.append(f"{command}: {error}")
    assert wrong == []


def test_an_invalid_command_of_a_page_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Run `make cold-recovery TABELS=5`, `make cold`, `recovery reprot`, or\n```\nrecovery report --opne\n"
        "make cold-recovery VERSION=five   # not a version\nmake report TRACE=1\nzcat a.gz | recovery analyse -\n```\n"
    )
    found = list(shown_commands(page))
    assert len(found) == 7
    for command in found:
        with pytest.raises((AssertionError, errors.RecoveryError, click.ClickException)):
            parse(*words_and_settings(command))


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=name_of)
def test_every_option_and_setting_of_a_page_exists(page: Path) -> None:
    named = {re.split(r"[ =]", code)[0] for code in codes(page) if re.match(r"--[a-z]|[A-Z_]+=", code)}
    known = {*flags(cli), *SETTING_NAMES, *(PREFIX + name for name in SETTING_NAMES), *OF_OTHERS}
    assert named - known == set()


def flags(command: click.Command) -> set[str]:
    found = {flag for parameter in command.params for flag in parameter.opts}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found |= flags(inner)
    return found


def test_every_setting_is_on_a_page() -> None:
    text = " ".join(page.read_text("utf-8") for page in PAGES)
    words = set(re.findall(r"--[a-z-]+|[A-Z][A-Z_]+", text))
    assert [one.name for one in OPTIONS if not {one.flag, one.name.upper()} & words] == []


def test_every_warning_is_on_the_page() -> None:
    kinds = {check.kind for check in warnings.CHECKS}
    section = (ROOT / "docs/reading.md").read_text("utf-8").partition("## Warnings")[2].partition("\n## ")[0]
    assert kinds == set(re.findall(r"^\* `([a-z-]+)`:", section, re.MULTILINE))


def test_every_exit_code_is_on_the_page() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.RecoveryError)]
    section = (ROOT / "docs/using.md").read_text("utf-8").partition("## Exit codes")[2]
    described = set(map(int, re.findall(r"^\* (\d+):", section, re.MULTILINE)))
    assert {0, *(one.exit_code for one in classes)} == described


def test_phases_of_the_kept_stacks_have_the_names_of_today() -> None:
    kept = ROOT / "fixtures" / "sessions" / "stacks" / "report.txt"
    assert (ROOT / "docs" / "results" / "2026-11-21-stacks" / "report.txt").read_text() == kept.read_text()
    texts = [line for page in PAGES_OF_DOCS for line in page.read_text().splitlines() if line.startswith("*")]
    of_80 = [line for line in texts if "8.0.31" in line and "5.7.22" not in line and "5.6.24" not in line]
    assert [line for line in of_80 if "discovery" in line or "its validation" in line] == []


def test_the_first_page_links_to_every_other_page() -> None:
    first = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.name != "README.md" and f"({page.name}" not in first] == []


@pytest.fixture
def volume(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str | None]:
    """Returns a block device for the page that mentions one, else None."""
    page: Path = request.getfixturevalue("page")
    if VOLUME not in page.read_text(encoding="utf-8"):
        yield None
        return
    image = tmp_path / "volume.image"
    with image.open("wb") as file:
        file.truncate(6 << 30)
    made = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True, check=False)
    if made.returncode:
        left_out(f"no loop device can be had here: {made.stderr.strip()}")
    device = made.stdout.strip()
    yield device
    subprocess.run(["umount", "-l", device], check=False, capture_output=True)
    subprocess.run(["losetup", "-d", device], check=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns one folder for all pages: some commands need the session of an earlier command."""
    return tmp_path_factory.mktemp("pages") / "results"


class Reader:
    """Runs the commands of a page with the tables, the folders and the device of the test."""

    def __init__(
        self, tmp_path: Path, data: Path, results: Path, volume: str | None = None, engine: str | None = None
    ) -> None:
        self.results = results
        self.engine = {} if engine is None else {"ENGINE": engine, "NO_PROBE": "1"}
        self.mounted = tmp_path / "mounted"
        self.volume = volume
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        self.data = data
        self.environment = as_a_user() | {"PATH": path}
        self.folder = tmp_path
        (tmp_path / "old.gz").write_bytes(gzip.compress(LOG.read_bytes()))

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        words = [self._own(word) for word in shlex.split(command)]
        words = [word for word in words if not word.startswith(("TABLES=", "RUNS=", "SCALE=", "REPEAT_EVERY="))]
        if "--every" in words:  # nobody waits for hours
            del words[(place := words.index("--every")) : place + 2]
        if words[1] in QUICK_EXPERIMENTS:
            words = [word.split()[0] for word in words]  # the first of several versions, questions or numbers
        if self.volume is None:
            words = [word for word in words if not word.startswith("DATA=")]
        needs_session = {"report", "bundle", "warm-recovery"} & set(words) and "ARGS=--dry-run" not in words
        if needs_session and not self.results.exists():
            earlier = self.run("make cold-recovery")  # these need an earlier session
            assert earlier.returncode == 0, earlier.stderr
        sizes = {"TABLES": "60 120" if "scale" in words else str(TABLES)}
        small = {**QUICK_EXPERIMENTS.get(words[1], sizes), "RESULTS": str(self.results), **self.engine}
        adds_runs = any(word.startswith("PRECISION=") for word in words)
        small |= {"MAX_RUNS": "5"} if adds_runs else {"RUNS": "1"}
        if self.volume is None:  # on the page about a volume each command says where the data is to be
            small["DATA"] = str(self.data)
        if words[0] == "dd":
            words.append("count=256")  # of some thousand
        environment = dict(self.environment)
        if words[0] == "make":
            words += [f"{name}={value}" for name, value in small.items()]
        else:
            environment |= {f"RECOVERY_{name}": value for name, value in small.items()}
        if "|" in words:
            words = ["sh", "-c", " ".join(word if word == "|" else shlex.quote(word) for word in words)]
        return subprocess.run(
            words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False
        )

    def _own(self, word: str) -> str:
        here = {
            "/mnt/ebs": self.mounted, VOLUME: self.volume, "results/latest": self.results / "latest",
            "/tmp/for-the-bug": self.folder / "for-the-bug", "old.gz": self.folder / "old.gz", "error.log": LOG,
        }  # fmt: skip
        for shown, own in here.items():
            if shown in word:
                return word.replace(shown, str(own))
        return self._earlier_session() if word == "SESSION" else word

    def _earlier_session(self) -> str:
        names = sorted(folder.name for folder in self.results.iterdir() if not folder.is_symlink())
        return names[-2]


@pytest.mark.real
@pytest.mark.on_demand("docs")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.name))
def test_the_commands_of_a_page_run(page: Path, volume: str | None, data: Path, results: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path, data, results, volume, engine="local")
    for command in commands(page):
        if "READ_IOPS" in command or "MEMORY" in command:
            need_limits()
        done = reader.run(command)
        assert done.returncode in expected_codes(command), f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, command


@pytest.mark.parametrize("command", PLANNED)
def test_the_plan_of_a_command_of_the_readme(command: str, data: Path, results: Path, tmp_path: Path) -> None:
    if "READ_IOPS" in command:
        need_limits()
    done = Reader(tmp_path, data, results).run(f"{command} ARGS=--dry-run")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\$ recovery ", done.stderr, re.MULTILINE), "a target prints the command that it runs"
    assert "servers run " in done.stdout


@pytest.mark.real
@pytest.mark.containers
@pytest.mark.parametrize(
    "command",
    [pytest.param(one, marks=pytest.mark.on_demand("docs")) if one in PLANNED else one for one in README_COMMANDS],
)
def test_a_command_of_the_readme_runs(command: str, data: Path, results: Path, tmp_path: Path) -> None:
    if "READ_IOPS" in command:
        need_limits()
    done = Reader(tmp_path, data, results).run(command)
    assert done.returncode in expected_codes(command), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.strip()
    if command in MEASURING:
        assert re.search(r"^\$ recovery ", done.stderr, re.MULTILINE), "a target prints the command that it runs"


@pytest.mark.real
def test_the_steps_of_github_set_the_exit_code_and_write_the_summary(data: Path, tmp_path: Path) -> None:
    lines = (ROOT / "docs" / "ci.md").read_text("utf-8").splitlines()
    measure, report, *others = (line.removeprefix("- run: .venv/bin/") for line in lines if line.startswith("- run: "))
    assert lines[lines.index(f"- run: .venv/bin/{report}") + 1] == "  if: always()"
    measure = re.sub(r"(--tables|--max-startup) \d+", r"\1 100", measure).replace(
        "--max-startup 100", "--max-startup 0.001"
    )
    summary = tmp_path / "summary.md"
    environment = as_a_user() | {
        "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(summary),
        "RECOVERY_DATA": str(data), "RECOVERY_RUNS": "1", "RECOVERY_ENGINE": "local",
    }  # fmt: skip
    codes = [
        subprocess.run(["bash", "-e", "-c", step], cwd=tmp_path, env=environment, check=False).returncode
        for step in (f"{measure} --no-probe", report, *others)
    ]
    assert codes == [4, 0, *(0 for _ in others)]
    assert all((tmp_path / made).is_file() for made in ("startup.json", "startup.xml", "site/index.html"))
    assert summary.read_text().startswith("# cold-recovery: 8.0.31\n")
    assert 'type="slow"' in (tmp_path / "startup.xml").read_text()


def expected_codes(command: str) -> tuple[int, ...]:
    if "doctor" in command:
        return (0, 2, 3)  # the test host may be too small for the full size
    if "fail-over" in command or "FAIL_OVER" in command:
        return (0, 2, 4)  # of 300 tables noise decides; make turns a 4 into its own 2
    return (0,)


def help_of_make(*words: str) -> list[str]:
    lines = subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == [], "a terminal of 80 columns would break it"
    return lines


def commands_with_help(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not command.hidden:
            yield before + name, command
            if isinstance(command, click.Group):
                yield from commands_with_help(command, f"{name} ")


def test_the_help_of_each_command_has_a_valid_example() -> None:
    found = dict(commands_with_help(cli))
    assert EXAMPLES.keys() == found.keys()
    for name, command in found.items():
        assert command.get_help(click.Context(command, info_name=name)).endswith(
            f"Example:\n    recovery {EXAMPLES[name]}"
        )
        parse(shlex.split(re.split(" >+ ", EXAMPLES[name])[0]), [])


def test_the_help_of_a_measuring_command_has_the_groups_of_make_help() -> None:
    shown = re.findall(r"^  ([a-z]+) +[A-Z]+", "\n".join(help_of_make("help")), re.MULTILINE)
    assert shown == [*(group.value.lower() for group in Group if group is not Group.OWN), "loads"]
    command = cli.get_command(click.Context(cli), "crash-matrix")
    assert command is not None
    text = command.get_help(click.Context(command, info_name="crash-matrix"))
    assert re.findall(r"^([A-Z][a-z ]+):$", text, re.MULTILINE) == [
        group.value for group in Group if group is not Group.WHY
    ]


def test_make_alone_prints_ten_commands_on_one_screen() -> None:
    lines = help_of_make()
    assert len(lines) < 24
    shown = [line.split()[1] for line in lines if line.startswith("  make ")]
    assert len(shown) == 10
    assert {"recovery", "cold-recovery", "doctor", "analyze", "report", "bundle"} <= set(shown)
    assert "`make help`" in lines[-1]


def test_make_help_prints_every_command_and_the_variables() -> None:
    shown = "\n".join(help_of_make("help"))
    for target in (
        "cold-recovery",
        "warm-recovery",
        "crash-recovery",
        "recovery",
        "clean-start",
        "versions",
        "doctor",
        "test",
        "bench",
    ):
        assert f"make {target}" in shown
    assert "default 5.7.22" in shown
    used = {name for line in README_COMMANDS for name in re.findall(r"\b([A-Z_]+)=", line)} - {"ARGS"}
    assert used >= {"VERSION", "TRACE", "FLOOR", "PRECISION"}
    assert {name for name in used if name not in shown} == set()


def test_an_empty_variable_of_make_is_an_error(data: Path, results: Path, tmp_path: Path) -> None:
    done = Reader(tmp_path, data, results).run("make cold-recovery VERSION=")
    assert done.returncode != 0
    assert "VERSION is set but empty" in done.stderr
