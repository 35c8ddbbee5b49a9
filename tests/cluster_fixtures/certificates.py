"""Certificates of a cluster, made by the very commands of the docs."""

import re
import subprocess
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "clusters.md"
TLS = {"certificate": "gpu2.pem", "key": "gpu2.key", "authority": "ca.pem"}


def make_certificates(folder: Path) -> None:
    """For the host of this test, in files as in `TLS`. Needs the openssl command."""
    section = DOCS.read_text().partition("## Encrypted links")[2].partition("\n## ")[0]
    commands = [block for block in re.findall(r"```\n(.*?)```", section, re.DOTALL) if block.startswith("openssl")]
    assert len(commands) == 2
    for command in commands:
        here = command.replace("IP:10.0.0.7", "IP:127.0.0.1")
        subprocess.run(["sh", "-ec", here], cwd=folder, check=True, capture_output=True, timeout=30)
