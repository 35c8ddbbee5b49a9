"""The checked-in protobuf code is what the .proto files say."""

import filecmp
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_python_protobuf_code_is_current(tmp_path: Path) -> None:
    package = runpy.run_path(str(ROOT / "proto" / "generate.py"))["generate"](tmp_path)
    checked_in = ROOT / "omniflow" / "v1"
    names = sorted(path.name for path in package.iterdir())
    assert names == sorted(path.name for path in checked_in.iterdir() if path.is_file()), "run `make proto`"
    different = [name for name in names if not filecmp.cmp(package / name, checked_in / name, shallow=False)]
    assert not different, f"run `make proto`: {different} are not what proto/omniflow/v1 gives"
