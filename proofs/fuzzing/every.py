"""All targets: the parts of the tool that read what others have written."""

from __future__ import annotations

from fuzzing import errorlog, options, printed, report, scripts
from fuzzing.target import Target

TARGETS: tuple[Target, ...] = (
    options.VERSIONS,
    options.SETTINGS,
    options.COMMANDS,
    scripts.TEMPLATES,
    scripts.STATEMENTS,
    errorlog.ERRORLOG,
    errorlog.PASSAGE,
    printed.PRINTED,
    report.REPORT,
    report.PAGES,
)
