"""What the tests in Chromium have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import chromium
from sessions import left_out


@pytest.fixture(scope="module")
def page() -> Iterator[chromium.Page]:
    if chromium.found() is None:
        left_out(f"there is no browser: {', '.join(chromium.PROGRAMS)} (apt-get install chromium)")
    with chromium.browser() as browser:
        yield chromium.Page(browser)
