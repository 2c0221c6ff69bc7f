"""Which parts of the tool read what others have written, and what does each promise of any input whatever?"""

from __future__ import annotations

from fuzzing import commands, errorlog, pages, passage, printed, report, settings, statements, templates, versions
from fuzzing.target import Target

TARGETS: tuple[Target, ...] = (
    versions.TARGET,
    settings.TARGET,
    commands.TARGET,
    templates.TARGET,
    statements.TARGET,
    errorlog.TARGET,
    passage.TARGET,
    printed.TARGET,
    report.TARGET,
    pages.TARGET,
)
