"""Names the settings in an error message as the user wrote them.

The code that raises an error does not know where a value came from. It writes `TABLES=20x`, or `--keep` where no value
follows. This module rewrites both for the user: `--tables 20x`, `TABLES=20x` with make, `RECOVERY_TABLES=20x`, or
`tables = 20x in recovery.toml`. Commands in backticks stay as they are."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from recovery.cli.options import BY_NAME, PREFIX, SETTINGS, Kind, Option

_DEFAULTS_FILE = BY_NAME["defaults_file"]
_VALUE = r"""(?P<value>"[^"]*"|'[^']*'|\S*?)(?=[,;:.)'"]*(?:\s|$))"""
_NAMES = "|".join(sorted((option.name.upper() for option in SETTINGS), key=len, reverse=True))
_FLAGS = "|".join(sorted((option.flag for option in SETTINGS), key=len, reverse=True))
_MENTION = re.compile(rf"`[^`]*`|(?<![\w.-])(?:(?P<name>{_NAMES})=|(?P<flag>{_FLAGS})(?![\w-])(?P<equals>=?)){_VALUE}")


@dataclass(frozen=True)
class Layers:
    """The places where the settings of a command come from."""

    arguments: Sequence[str] = ()
    environment: Mapping[str, str] | None = None
    config: Collection[str] = ()
    """The settings in the configuration file, by the names of click's parameters."""
    config_file: str = ""

    def rename(self, text: str) -> str:
        """Returns the text with each setting named as the user wrote it, or as the user would write it."""
        return _MENTION.sub(self._renamed, text)

    def _renamed(self, match: re.Match[str]) -> str:
        if match["name"] is None and match["flag"] is None:
            return match[0]
        name = match["name"] or match["flag"].removeprefix("--").replace("-", "_")
        option, value = BY_NAME[name.lower()], match["value"]
        equals = "=" if match["name"] or match["equals"] else ""
        if not equals:  # what follows the flag is text
            return self._spelled(option, "", "") + value
        return self._spelled(option, "=", value)

    def _spelled(self, option: Option, equals: str, value: str) -> str:
        name, environment = option.name.upper(), self.environment or {}
        written = [word for word in self.arguments if word.partition("=")[0] == option.flag]
        if written:
            return option.flag + (("=" if "=" in written[0] else " ") + value if value else "")
        if option.name == "set" and value and not self._is_given(option) and self._is_given(_DEFAULTS_FILE):
            return f"{value} in the file of {self._spelled(_DEFAULTS_FILE, '', '')}"
        if option.variable in environment:
            return variable_name(option.variable, environment) + equals + value
        if option.key in self.config:
            return f"{option.name}{f' = {value}' if value else ''} in {self.config_file}"
        if "MAKELEVEL" in environment:
            return name + equals + value
        return option.flag + (f" {value}" if value and option.kind is not Kind.FLAG else "")

    def _is_given(self, option: Option) -> bool:
        flags = {word.partition("=")[0] for word in self.arguments}
        return option.flag in flags or option.variable in (self.environment or {}) or option.key in self.config


def variable_name(variable: str, environment: Mapping[str, str]) -> str:
    """Returns the name of a RECOVERY_* variable as the user wrote it: `TABLES` if it comes from a variable of make."""
    name = variable.removeprefix(PREFIX)
    given = name in environment or re.search(rf"(^|\s){re.escape(name)}\s*[:+?]*=", environment.get("MAKEFLAGS", ""))
    return name if "MAKELEVEL" in environment and given else variable
