"""Which journal a folder holds: what the registry knows it by.

It goes with the folder, and a folder that is made anew is another journal.
"""

import os
import uuid
from pathlib import Path

FILE = "id"


def journal_id(folder: Path) -> str:
    """Of the journal in `folder`, which is made where there is none. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    if not file.exists():
        draft = folder / f"{FILE}.{os.getpid()}"
        draft.write_text(uuid.uuid4().hex)
        draft.replace(file)
    return file.read_text().strip()
