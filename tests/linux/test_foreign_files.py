"""Files that somebody else may have left are no pipes, and have an end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from recovery.builds.download import cached_sha256, digest
from recovery.builds.executable import check_elf
from recovery.builds.install import extract_inner, unpack
from recovery.builds.option_lists import kept_options
from recovery.errors import UsageError
from recovery.linux.files import options_dir, read_memo, read_stored_text
from recovery.model import Schema
from recovery.workload.inserts import insert_statements
from recovery.workload.schema import read_template, script_statements


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


def test_a_template_gives_the_same_script_each_time(tmp_path: Path) -> None:
    """It is measured by rendering, and rendered again for each build."""
    template = tmp_path / "own.sql.j2"
    template.write_text("{% for _ in range(100) %}select {{ range(1000) | random }};{% endfor %}")
    schema = Schema(1, template=template)
    first = list(script_statements(schema))
    assert first == list(script_statements(schema))
    assert len(set(first)) > 10


def test_a_mistake_in_a_template_is_named_with_what_to_do(tmp_path: Path) -> None:
    template = tmp_path / "own.sql.j2"
    template.write_text("{{ nothing }}")
    with pytest.raises(UsageError, match=r"line 1: 'nothing' is undefined") as raised:
        insert_statements(Schema(1), template=template)
    assert "it is Jinja2" in raised.value.hint
