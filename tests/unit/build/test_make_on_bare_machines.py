"""What a bare machine lacks is one clear line of `make`, before anything is built."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOOLS = ("make", "bash", "find", "sed", "grep", "expand", "ls")

GOOD = {
    "cargo": "echo 'cargo 1.88.0 (873a06493 2025-05-10)'",
    "cc": "exit 0",
    "python3": 'case "$*" in --version) echo Python 3.11.7;; *) exit 0;; esac',
}


def make(folder: Path, target: str, **programs: str | None) -> str:
    """Standard error of `make target` with nothing on PATH but basic tools and `programs` (shell scripts)."""
    path = folder / "bin"
    path.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (path / tool).symlink_to(found)
    for name, script in {**GOOD, **programs}.items():
        if script is not None:
            (path / name).write_text(f"#!{path}/bash\n{script}\n")
            (path / name).chmod(0o755)
    done = subprocess.run(
        [str(path / "make"), "-s", "-f", str(ROOT / "Makefile"), target],
        cwd=folder,
        env={"PATH": str(path), "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("omniflow: ")]
    assert len(lines) <= 1, done.stderr
    assert (done.returncode == 0) == (not lines), done.stderr
    return lines[0] if lines else ""


def test_a_good_toolchain_passes(tmp_path: Path) -> None:
    assert make(tmp_path, ".toolchain") == ""


@pytest.mark.parametrize(
    ("target", "programs", "line"),
    [
        (".toolchain", {"cargo": None}, "no Rust toolchain (cargo) on PATH: install Rust 1.88 or later"),
        (
            ".toolchain",
            {"cargo": "echo 'cargo 1.87.0 (99624be96 2025-05-06)'"},
            "cargo 1.87.0 (99624be96 2025-05-06) is",
        ),
        (
            ".toolchain",
            {"cargo": "echo 'error: no default is set' >&2; exit 1"},
            "cargo does not run (error: no default",
        ),
        (".toolchain", {"cc": None}, "no C compiler (cc) on PATH"),
        (".uv/bin/uv", {"python3": None}, "no Python 3.11 or later on PATH (found: none)"),
        (
            ".uv/bin/uv",
            {"python3": 'case "$*" in --version) echo Python 3.9.2;; *) exit 1;; esac'},
            "no Python 3.11 or later on PATH (found: Python 3.9.2)",
        ),
        (
            ".uv/bin/uv",
            {"python3": 'case "$*" in *ensurepip*) exit 1;; *) exit 0;; esac'},
            "python3 has no venv module: install it (Debian: apt-get install python3-venv)",
        ),
    ],
)
def test_what_is_missing_is_one_line_with_the_cure(
    tmp_path: Path, target: str, programs: dict[str, str | None], line: str
) -> None:
    assert line in make(tmp_path, target, **programs)


def test_an_older_python3_is_no_obstacle_beside_a_newer_one(tmp_path: Path) -> None:
    programs = {
        "python3": 'case "$*" in --version) echo Python 3.9.2;; *) exit 1;; esac',
        "python3.12": 'case "$*" in *"-m venv"*) exit 3;; *) exit 0;; esac',
    }
    with pytest.raises(AssertionError, match="Error 3"):  # it went on to `python3.12 -m venv`
        make(tmp_path, ".uv/bin/uv", **programs)
    assert not (tmp_path / ".uv").exists()


def test_every_target_of_test_exists() -> None:
    """A prerequisite that is phony and has no rule is skipped without a word."""
    done = subprocess.run(
        ["make", "-C", str(ROOT), "-n", "test"], capture_output=True, text=True, timeout=30, check=False
    )
    for command in (
        "ruff check",
        "ruff format",
        "mypy",
        "lint-imports",
        "cargo fmt",
        "cargo clippy",
        "cargo test",
        "pytest",
    ):
        assert command in done.stdout
