"""Errors of the client."""

from __future__ import annotations

from typing import Optional

#: Codes by which the server's Connect codes are known.
CODES = {
    "not_found": "NotFound",
    "already_exists": "AlreadyExists",
    "invalid_argument": "InvalidArgument",
    "out_of_range": "InvalidArgument",
    "failed_precondition": "FailedPrecondition",
    "aborted": "FailedPrecondition",
    "unauthenticated": "Unauthenticated",
    "permission_denied": "PermissionDenied",
    "resource_exhausted": "ResourceExhausted",
    "deadline_exceeded": "TimedOut",
    "unavailable": "Unavailable",
}


class SandboxError(Exception):
    """A call failed.

    `code` is one of PoolFull, NotFound, AlreadyExists, InvalidArgument, FailedPrecondition, Unauthenticated, PermissionDenied,
    ResourceExhausted, TimedOut, Unavailable, CommandFailed, OutputLost and Internal. `retry_after` is in seconds, if the server knows when
    a retry may succeed.
    """

    def __init__(self, code: str, message: str, retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
