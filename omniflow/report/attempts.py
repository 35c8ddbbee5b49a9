"""Which attempts of a job were tried again."""

from collections.abc import Iterable
from itertools import pairwise

from omniflow.v1 import job_pb2


def repeated(activations: Iterable[job_pb2.ActivationReport]) -> set[tuple[str, tuple[int, ...], int]]:
    """(node, key, attempt) of each that a later attempt follows.

    LOST is what a worker's death leaves behind, and also what a worker calls an attempt that it stopped because nobody
    needed more of it, such as the last one of a loop: no other attempt follows that.
    """
    tries = sorted(_identity(activation) for activation in activations)
    return {earlier for earlier, later in pairwise(tries) if earlier[:2] == later[:2]}


def was_repeated(activation: job_pb2.ActivationReport, again: set[tuple[str, tuple[int, ...], int]]) -> bool:
    """`again`: what `repeated` found in its job."""
    return _identity(activation) in again


def _identity(activation: job_pb2.ActivationReport) -> tuple[str, tuple[int, ...], int]:
    return activation.node, tuple(activation.key), activation.attempt
