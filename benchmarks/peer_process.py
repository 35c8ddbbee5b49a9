"""A peer's script in its own environment, which takes orders (see peers/README.md)."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]


class Peer:
    """Starts on entering and ends on leaving."""

    def __init__(self, python: Path, script: Path, *arguments: str) -> None:
        self.python = python
        self._script = script
        self._arguments = arguments
        self.name = ""
        self.missing = "" if python.exists() else "not set up: make bench-peers"
        """Why it cannot run; empty when it can."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [str(self.python), self._script.name, *self._arguments],
            cwd=self._script.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.name = self._answer()["ready"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()

    @property
    def pid(self) -> int:
        """The process that runs."""
        return self._process.pid

    def order(self, **order: Any) -> dict[str, Any]:
        """One measurement. Raises RuntimeError when the peer has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"{self._script.name} ended with status {self._process.wait()}")


def sglang_omni() -> Peer:
    """Its three-process pipeline."""
    return _installed("sglang-omni", "sglang_omni_stages.py")


def mstar() -> Peer:
    """Its conductor and three workers."""
    return _installed("mstar", "mstar_nodes.py")


def sglang_prefix() -> Peer:
    """Its prefix trees."""
    return _installed("sglang-omni", "sglang_prefix.py")


def vllm_prefix() -> Peer:
    """Its KV cache manager."""
    return _installed("vllm", "vllm_prefix.py")


def sglang_pages() -> Peer:
    """Its page allocator."""
    return _installed("sglang-omni", "sglang_pages.py")


def vllm_pages() -> Peer:
    """Its block pool."""
    return _installed("vllm", "vllm_pages.py")


def dynamo_prefix(*size: str) -> Peer:
    """Its router's tree."""
    return _installed("dynamo", "dynamo_prefix.py", *size)


def hugging_face(weights: Path) -> Peer:
    """`generate`, in this environment."""
    return Peer(Path(sys.executable), ROOT / "benchmarks" / "hugging_face.py", str(weights))


def _installed(environment: str, script: str, *arguments: str) -> Peer:
    return Peer(ROOT / ".peers" / environment / "bin" / "python", ROOT / "benchmarks" / "peers" / script, *arguments)
