"""For every test: settings of the caller's shell stay out, and no server is left running."""

from __future__ import annotations

import ctypes
import os
import signal
import tarfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import hypothesis
import psutil
import pytest
from sessions import KEPT_ARCHIVE

from recovery.linux.signals import raise_interrupt_on_signals

_PR_SET_CHILD_SUBREAPER = 36
SERVERS = ("mysqld", "mariadbd")
ON_DEMAND = "--on-demand"
# The second by --hypothesis-profile=nightly.
for profile, examples in (("usual", 20), ("nightly", 1000)):
    hypothesis.settings.register_profile(profile, max_examples=examples, deadline=None)
hypothesis.settings.load_profile("usual")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(ON_DEMAND, metavar="GROUP", help="run only the on-demand tests of GROUP")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("on_demand")
        group = None if mark is None else mark.args[0]
        (chosen if group == config.getoption(ON_DEMAND) else left).append(item)
    if left:
        if not chosen:
            raise pytest.UsageError(f"all of these tests run on demand: {ON_DEMAND}=GROUP, or make test-GROUP")
        config.hook.pytest_deselected(items=left)
    items[:] = chosen


def pytest_configure() -> None:
    """Handle the signals that a shell has background processes ignore, since tests send them to programs they start.
    Ended by a time-out the tests clear up, too; and a server whose parent dies becomes our child."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    raise_interrupt_on_signals()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Begins no next test after `make test` was interrupted, also if this one has taken the signal for its own."""
    if (end := os.environ.get("TESTS_END")) and Path(end).exists():
        item.session.shouldstop = "make test was interrupted"


@pytest.fixture(scope="session", autouse=True)
def initialised(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Initialises a data directory of each kind once, and copies it then."""
    if not any(item.get_closest_marker("real") for item in request.session.items):
        yield
        return
    import datadirs
    from initialised import Initialised

    from recovery.workload import build

    once = Initialised(Path(os.environ.get("TESTS_SHARED") or tmp_path_factory.getbasetemp()) / "initialised")
    with pytest.MonkeyPatch.context() as patch:
        for module in (build, datadirs):
            patch.setattr(module, "initialise", once.initialise)
        yield


def _isolate_settings(patch: pytest.MonkeyPatch, lock: Path, node: pytest.Item | pytest.Module) -> None:
    """The cache of downloads is shared with the user's; everything else is the test's own."""
    for name in os.environ:
        if name.startswith("RECOVERY_") and name != "RECOVERY_CACHE":
            patch.delenv(name)
    # Under make the command tells itself, which is tested apart.
    patch.delenv("MAKELEVEL", raising=False)
    patch.setenv("RECOVERY_HOST_LOCK", str(lock))
    # What a host's engine does is tested apart, where one is asked for.
    patch.setenv("RECOVERY_ENGINE", "local")
    starts_servers = any(map(node.get_closest_marker, ("real", "containers")))
    if starts_servers and os.environ.get("TESTS_KEEP_CACHES"):  # others run at the same time
        patch.setenv("RECOVERY_NO_DROP_CACHES", "1")


@pytest.fixture(scope="session")
def locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names of host locks in one folder: a folder for each test takes longer than most tests."""
    folder = tmp_path_factory.mktemp("locks")
    return (folder / f"{number}.lock" for number in count())


@pytest.fixture(autouse=True)
def own_settings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, locks: Iterator[Path]) -> None:
    _isolate_settings(monkeypatch, next(locks), request.node)


@pytest.fixture(autouse=True)
def servers_at_hand(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run finds every server. Where one comes from is tested apart, with `asked_sources`."""
    if "asked_sources" not in request.fixturenames:
        monkeypatch.setattr("recovery.session.engine.locate_server", lambda *_: "in the cache")


@pytest.fixture
def asked_sources() -> None:
    """A dry run asks the sources of servers."""


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache of downloads."""
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def module_settings(request: pytest.FixtureRequest, locks: Iterator[Path]) -> Iterator[None]:
    """The same for fixtures that run the command once for a file of tests."""
    with pytest.MonkeyPatch.context() as patch:
        _isolate_settings(patch, next(locks), request.node)
        yield


@pytest.fixture(scope="module")
def once(module_settings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what fixtures run once for a file of tests."""
    return tmp_path_factory.mktemp("once")


@pytest.fixture(scope="session")
def kept_sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the kept sessions."""
    folder = tmp_path_factory.mktemp("kept")
    with tarfile.open(KEPT_ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def shared_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For files of tests that say SHARES_DATA: with as many tables as the others they find what those have built."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """One folder of data directories for a file of tests: the second finds what the first has built."""
    return shared_data if getattr(request.module, "SHARES_DATA", False) else tmp_path_factory.mktemp("data")


@pytest.fixture
def at(request: pytest.FixtureRequest, data: Path, tmp_path: Path) -> list[str]:
    """Options of the command: how many tables, and where all of it lies. How fast the storage is that the tests are on
    is of no interest to most of them."""
    folders = ["--data", str(data), "--no-probe", "--results", str(tmp_path / "results")]
    return ["--tables", str(request.module.TABLES), *folders]


@pytest.fixture(autouse=True)
def nothing_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """A file of tests that says SHARES_SERVER has a fixture that runs one for all of them."""
    before = _servers() if getattr(request.module, "SHARES_SERVER", False) else []
    yield
    left = [process for process in _servers() if process not in before]
    for process in left:
        process.kill()
    assert not left, f"servers left running: {left}"


def _servers() -> list[psutil.Process]:
    try:  # almost no test leaves a child, and to look for grandchildren reads all of /proc
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    return [process for process in psutil.Process().children(recursive=True) if _is_server(process)]


def _is_server(process: psutil.Process) -> bool:
    try:
        return process.name() in SERVERS and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
