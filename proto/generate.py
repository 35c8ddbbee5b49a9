"""Writes the Python protobuf code of `proto/omniflow/v1` to `omniflow/v1` (or below the folder given).

The code is checked in, so that installing needs no protoc; `tests/unit/wire` proves it current.
"""

import os
import sys
from pathlib import Path

from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent
WITH_SERVICES = {"job", "cluster"}
DOC = '"""Generated from proto/omniflow/v1 by `make proto`; do not edit."""\n'


def generate(root: Path) -> Path:
    """Generates below `root` and returns the package's folder. Raises RuntimeError when protoc refuses a file."""
    # protoc finds its mypy plugin on PATH: the one beside this interpreter.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for source in sorted((PROTO / "omniflow" / "v1").glob("*.proto")):
        outputs = [f"--python_out={root}", f"--mypy_out=quiet:{root}"]
        if source.stem in WITH_SERVICES:
            outputs += [f"--grpc_python_out={root}", f"--mypy_grpc_out=quiet:{root}"]
        if protoc.main(["protoc", f"-I{PROTO}", *outputs, str(source.relative_to(PROTO))]) != 0:
            raise RuntimeError(f"protoc refuses {source}; its message stands above")
    package = root / "omniflow" / "v1"
    (package / "__init__.py").write_text(DOC)
    return package


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else PROTO.parent)
