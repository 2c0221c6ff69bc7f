"""Is each server built in the way that was measured to be fastest for it?"""

from recovery.model import parse_version
from recovery.workload.build import build_profile


def test_redo_is_turned_off_only_where_it_can_be_turned_on_again() -> None:
    off = [
        text
        for text in ("5.6.24", "5.7.22", "8.0.15", "8.0.20", "8.0.21", "8.0.31", "9.7.4", "mariadb-10.11.5")
        if build_profile(parse_version(text)).disable_redo
    ]
    assert off == ["8.0.21", "8.0.31", "9.7.4"]


def test_old_dictionaries_take_two_connections() -> None:
    connections = [build_profile(parse_version(text)).connections for text in ("5.7.22", "mariadb-10.2.11", "8.0.15")]
    assert connections == [2, 2, 4]
