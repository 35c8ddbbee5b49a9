"""What names a set of weights: equal names, equal tensors."""

from __future__ import annotations

import hashlib

AS_STORED = "as stored"
"""The dtype of weights that nobody converts."""


def fingerprint(content: str, dtype: str, layout: str) -> str:
    """64 hex digits. `content`: digest of the source's bytes; `dtype`: what it was converted to; `layout`: which
    tensors there are and how they lie in each other, with the version of the program that laid them so.

    Not covered: where the source lies and what it is called, the device, and the versions of the libraries that read
    the source (a change of theirs that changes a weight is a defect of theirs; raise the layout's version then).
    """
    return hashlib.sha256(f"{content}\n{dtype}\n{layout}".encode()).hexdigest()
