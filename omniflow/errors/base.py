"""The root of the tree, and the way to and from `omniflow.v1.Error`."""

from __future__ import annotations

from typing import ClassVar

from omniflow.v1 import error_pb2

_BY_CODE: dict[int, type[OmniFlowError]] = {}


class OmniFlowError(Exception):
    """What went wrong, where, and what to do about it.

    `message` says what was wrong; `field` which input, parameter or configuration key; `node` and `worker` where it
    happened; `cause` holds the role's own words; `cure` says how to mend it. Unknown places are empty strings.
    """

    code: ClassVar[error_pb2.ErrorCode.ValueType] = error_pb2.ERROR_UNSPECIFIED

    def __init__(
        self,
        message: str,
        *,
        field: str = "",
        node: str = "",
        worker: str = "",
        cause: str = "",
        cure: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.node = node
        self.worker = worker
        self.cause = cause
        self.cure = cure

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # The class that states a code stands for it; classes that refine it inherit the code and are not registered.
        if "code" in cls.__dict__:
            _BY_CODE[cls.code] = cls

    @property
    def code_name(self) -> str:
        """The code's stable name, e.g. "INVALID_ARGUMENT"."""
        return error_pb2.ErrorCode.Name(self.code)

    def __str__(self) -> str:
        lines = [self.message]
        if place := self._place():
            lines.append(f"  --> {place}")
        if self.cause:
            lines.append(_labelled("cause", self.cause))
        if self.cure:
            lines.append(_labelled("cure", self.cure))
        return "\n".join(lines)

    def _place(self) -> str:
        parts = [
            f"`{self.field}`" if self.field else "",
            f"node {self.node}" if self.node else "",
            f"worker {self.worker}" if self.worker else "",
        ]
        return ", ".join(part for part in parts if part)

    def to_proto(self) -> error_pb2.Error:
        return error_pb2.Error(
            code=self.code,
            message=self.message,
            field=self.field,
            node=self.node,
            worker=self.worker,
            cause=self.cause,
            cure=self.cure,
        )

    @classmethod
    def _from_proto(cls, error: error_pb2.Error) -> OmniFlowError:
        return cls(
            error.message,
            field=error.field,
            node=error.node,
            worker=error.worker,
            cause=error.cause,
            cure=error.cure,
        )


def from_proto(error: error_pb2.Error) -> OmniFlowError:
    """The exception that an `Error` stands for: the class of its code, or the root for a code of a later version."""
    return _BY_CODE.get(error.code, OmniFlowError)._from_proto(error)


def _labelled(label: str, text: str) -> str:
    """`text` under a label, its further lines indented to match."""
    head = f"   = {label}: "
    return head + text.replace("\n", "\n" + " " * len(head))
