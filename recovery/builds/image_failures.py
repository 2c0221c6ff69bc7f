"""Why was an image not pulled, and is there another way? Read from what the engines say, old and new. Pure."""

from __future__ import annotations

import re
from enum import StrEnum


class Why(StrEnum):
    """Each says how the line goes on that tells it."""

    OLD_FORMAT = "is in the format of 2015 (schema 1), which this engine does not pull"
    ABSENT = "is not in the registry"
    REFUSED = "is not there, or not for everybody"
    LIMITED = "was refused: too many pulls from here"
    UNREACHABLE = "cannot be asked for: the registry does not answer"
    NO_SUCH_NAME = "is no name of an image"
    OTHER = "could not be pulled"


# The first that matches counts: an engine wraps several of these words into one line.
_SIGNS = (
    # Docker 26 and 27; 28; containerd before and since 2.1
    (Why.OLD_FORMAT, r"schema ?(version )?1\b|Image Format v1|manifest\.v1\+(prettyjws|json)|schemaVersion.? ?1\b"),
    (Why.LIMITED, r"toomanyrequests|rate limit|429 Too Many"),
    (Why.NO_SUCH_NAME, r"invalid reference format|invalid repository name|must be lowercase|invalid tag"),
    (Why.ABSENT, r"manifest unknown|manifest for .* not found|name unknown|repository name not known"),
    (Why.ABSENT, r"no matching manifest|does not match the specified platform|: not found$"),
    (Why.REFUSED, r"pull access denied|unauthorized|authentication required|no basic auth|denied|403 Forbidden|401 "),
    (
        Why.UNREACHABLE,
        r"no such host|connection refused|connection reset|no route to host|network is unreachable|i/o timeout"
        r"|handshake timeout|deadline exceeded|Client\.Timeout|request canceled|server gave HTTP response|x509|tls:"
        r"|\bEOF\b|Temporary failure in name|server misbehaving|proxyconnect|\b50[0234] "
        r"|unexpected HTTP status|Read timed out|Connection aborted",
    ),
    (Why.ABSENT, r"\bnot found\b|does not exist"),
)


def why_not_pulled(message: str) -> Why:
    return next((why for why, sign in _SIGNS if re.search(sign, message, re.IGNORECASE)), Why.OTHER)


GO_ON = frozenset({Why.OLD_FORMAT, Why.ABSENT, Why.REFUSED, Why.LIMITED, Why.UNREACHABLE})
"""With these another way to the same server is tried."""
