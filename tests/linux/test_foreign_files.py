"""Files that somebody else may have left are no pipes, have an end, and need little memory and time."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from runs import make_run

from recovery.builds.download import cached_sha256, digest
from recovery.builds.executable import check_elf
from recovery.builds.install import extract_inner, unpack
from recovery.builds.option_lists import kept_options
from recovery.errors import UsageError
from recovery.linux.files import options_dir, read_memo, read_stored_text
from recovery.linux.own_limits import done_in_limited_child
from recovery.model import Schema, Verdict
from recovery.storage.sessions import STACKS_FOLDER, load_stacks
from recovery.workload import schema as rendering
from recovery.workload.inserts import insert_statements
from recovery.workload.schema import checked_script_size, read_template, script_statements


@pytest.fixture(params=["pipe", "device"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Reading one blocks, and the other has no end."""
    path = tmp_path / "endless"
    if request.param == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize(
    "reader",
    [
        read_template, read_stored_text, digest, check_elf, lambda path: unpack(path, path.parent / "unpacked"),
        lambda path: extract_inner(path, "inner.tar.gz", path.parent / "inner"),
    ],
)  # fmt: skip
def test_a_file_that_is_named_must_be_a_regular_one(reader: Callable[[Path], object], endless: Path) -> None:
    with pytest.raises(UsageError, match="is not a regular file"):
        reader(endless)


def test_what_the_tool_keeps_is_not_waited_for(endless: Path, tmp_path: Path, own_cache: Path) -> None:
    with pytest.raises(ValueError, match="is not a regular file"):
        read_memo(endless)
    listed = options_dir() / "5.7.22-0123456789abcdef.txt"
    assert own_cache in listed.parents
    listed.parent.mkdir(parents=True)
    endless.rename(listed)
    assert kept_options() == frozenset()
    file = tmp_path / "file"
    file.write_bytes(b"content")
    assert cached_sha256(file, listed) == digest(file)


def test_stacks_of_a_stored_session_are_not_waited_for(endless: Path, tmp_path: Path) -> None:
    (tmp_path / STACKS_FOLDER).mkdir()
    endless.rename(tmp_path / STACKS_FOLDER / "run.folded")
    run = make_run(1, "5.7.22", "mysql", "cold", 1, Verdict.MEASURED, file=f"{STACKS_FOLDER}/run.folded")
    assert load_stacks(tmp_path, run) is None


def renderings(template: Path) -> tuple[Callable[[], object], ...]:
    """The template as one of a schema, and as one of inserts."""
    return (
        partial(checked_script_size, Schema(1, template=template)),
        partial(insert_statements, Schema(1), template=template),
    )


TOO_LARGE = [
    "{{ 'x' * 10 ** 10 }}", "{{ range(100000000) | list | length }}{{ range(100000000) | list | length }}",
    "{{ '%10000000000d' % 1 }}", "{% for number in range(1000) %}{{ 'x' * 10000000 }}{% endfor %}",
    "{% set a = namespace(text='x') %}{% for _ in range(40) %}{% set a.text = a.text ~ a.text %}{% endfor %}",
]  # fmt: skip


@pytest.mark.parametrize("text", TOO_LARGE)
def test_a_template_that_needs_gigabytes_is_refused(text: str, tmp_path: Path) -> None:
    template = tmp_path / "own.sql.j2"
    template.write_text(text)
    for render in renderings(template):
        with pytest.raises(UsageError, match=r"own\.sql\.j2 needs more than 1,024 MiB of memory"):
            render()


WITHOUT_END = [
    "{% for a in range(100000000) %}{% for b in range(100000000) %}{% endfor %}{% endfor %}",
    "{{ 2 ** (2 ** 40) }}",
    "{% set n = namespace(x=()) %}{% for _ in range(60) %}{% set n.x = (n.x, n.x) %}{% endfor %}{{ {n.x: 1} }}",
]  # fmt: skip
"""All but the first are one operation, in which no signal handler runs."""


@pytest.mark.parametrize("text", WITHOUT_END)
def test_a_template_without_an_end_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "_RENDERING_S", 0.9)
    template = tmp_path / "own.sql.j2"
    template.write_text(text)
    for render in renderings(template):
        with pytest.raises(UsageError, match="is not rendered after 1 s of CPU time"):
            render()


def test_a_template_gives_the_same_script_each_time(tmp_path: Path) -> None:
    """What was measured within limits is rendered again without them."""
    template = tmp_path / "own.sql.j2"
    template.write_text("{% for _ in range(100) %}select {{ range(1000) | random }};{% endfor %}")
    schema = Schema(1, template=template)
    first = list(script_statements(schema))
    assert first == list(script_statements(schema))
    assert len(set(first)) > 10


def test_the_limits_are_those_of_the_child() -> None:
    with pytest.raises(MemoryError):
        done_in_limited_child(lambda: len(bytes(1 << 30)), 64 << 20, 60)
    assert done_in_limited_child(lambda: len(bytes(1 << 20)), 64 << 20, 60) == 1 << 20
    assert len(bytes(1 << 30)) == 1 << 30


def test_an_error_in_the_child_is_raised_with_what_to_do(tmp_path: Path) -> None:
    template = tmp_path / "own.sql.j2"
    template.write_text("{{ nothing }}")
    with pytest.raises(UsageError, match=r"line 1: 'nothing' is undefined") as raised:
        insert_statements(Schema(1), template=template)
    assert "it is Jinja2" in raised.value.hint


def test_a_child_that_dies_is_no_result() -> None:
    with pytest.raises(MemoryError):
        done_in_limited_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 64 << 20, 60)
