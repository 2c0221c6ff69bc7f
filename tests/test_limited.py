"""How limits are written, told and judged."""

from __future__ import annotations

import pytest

from recovery.errors import UsageError
from recovery.linux.cgroups import (
    format_bytes,
    limit_exceeded,
    limits_from_settings,
    limits_text,
    limits_to_settings,
    parse_limits,
)
from recovery.model import NO_LIMITS, Limits

ALL = Limits(read_iops=5000, read_bps=100 << 20, memory_bytes=2 << 30, cpus=1.5)


def test_as_the_user_writes_them() -> None:
    assert parse_limits("5_000", "100m", "2g", "1.5") == ALL
    assert parse_limits("5000", "104857600", "2GiB", "1.50") == ALL
    assert parse_limits(None, None, None, None) == NO_LIMITS
    assert parse_limits(None, None, "1.5G", None).memory_bytes == 3 << 29
    assert parse_limits(None, None, "200000001", None).memory_bytes == 199999488, "whole pages"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("0", None, None, None), "READ_IOPS=0 is not valid"),
        (("-5", None, None, None), "READ_IOPS=-5 is not valid"),
        (("5k", None, None, None), "READ_IOPS=5k is not valid"),
        (("__", None, None, None), "READ_IOPS=__ is not valid"),
        (("99999999999", None, None, None), "READ_IOPS"),
        ((None, "0", None, None), "READ_BPS=0 is not valid"),
        ((None, "fast", None, None), "READ_BPS=fast is not valid"),
        ((None, "100", None, None), "READ_BPS=100 is not valid"),
        ((None, None, "0", None), "MEMORY=0 is not valid"),
        ((None, None, "-2g", None), "MEMORY=-2g is not valid"),
        ((None, None, "2 gigs", None), "MEMORY=2 gigs is not valid"),
        ((None, None, "64m", None), "too little for any server"),
        ((None, None, "9" * 40, None), "MEMORY"),
        (("1" * 5000, None, None, None), "READ_IOPS"),
        ((None, None, "9" * 400 + "g", None), "MEMORY"),
        ((None, None, None, "0"), "CPUS=0 is not valid"),
        ((None, None, None, "-1"), "CPUS=-1 is not valid"),
        ((None, None, None, "nan"), "CPUS=nan is not valid"),
        ((None, None, None, "inf"), "CPUS=inf is not valid"),
        ((None, None, None, "two"), "CPUS=two is not valid"),
    ],
)
def test_invalid_limits_are_refused(given: tuple[object, object, object, object], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_limits(*given)
    assert told in caught.value.message
    assert caught.value.hint


def test_the_command_that_repeats_asks_for_the_same() -> None:
    assert [format_bytes(count) for count in (2 << 30, 100 << 20, 1025)] == ["2g", "100m", "1025"]
    assert parse_limits(ALL.read_iops, "100m", "2g", ALL.cpus) == ALL


def test_a_stored_session_keeps_them() -> None:
    assert limits_from_settings(limits_to_settings(ALL)) == ALL
    assert limits_from_settings({"tables": 3}) == NO_LIMITS
    for wrong in ("many", True):
        assert limits_from_settings(dict.fromkeys(limits_to_settings(ALL), wrong)) == NO_LIMITS
    assert limits_from_settings({"cpus": 2}) == Limits(cpus=2.0)


def test_in_words() -> None:
    assert (
        limits_text(ALL) == "5,000 reads a second, 100 MiB read a second, 2 GiB of memory with its page cache, 1.5 CPUs"
    )
    assert limits_text(Limits(cpus=1.0)) == "1 CPU"
    assert limits_text(NO_LIMITS) == ""


def test_a_start_that_was_not_held_to_its_limit() -> None:
    asked = Limits(read_iops=1000, read_bps=1 << 20)
    held = limit_exceeded(asked, read_requests=10_900, read_bytes=10 << 20, seconds=10.0)
    assert held is None
    doubt = limit_exceeded(asked, read_requests=12_000, read_bytes=10 << 20, seconds=10.0)
    assert doubt is not None
    assert "1,200 reads a second, although the limit was 1,000" in doubt
    assert "bytes read" in (limit_exceeded(asked, read_requests=1, read_bytes=20 << 20, seconds=10.0) or "")
    assert limit_exceeded(asked, read_requests=None, read_bytes=None, seconds=10.0) is None
    assert limit_exceeded(asked, read_requests=200, read_bytes=None, seconds=0.05) is None, (
        "the first slice comes at once"
    )
    assert limit_exceeded(NO_LIMITS, read_requests=10**9, read_bytes=10**12, seconds=1.0) is None
