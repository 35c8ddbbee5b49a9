"""What the registry knows a journal by."""

import shutil
from pathlib import Path

from omniflow_scheduler.journal_id import journal_id


def test_a_journal_keeps_its_id_and_one_in_a_folder_made_anew_is_another(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "journal"
    first = journal_id(folder)
    assert journal_id(folder) == first
    moved = folder.rename(tmp_path / "moved")
    assert journal_id(folder) != first
    assert journal_id(moved) == first
    shutil.rmtree(folder)
    assert journal_id(folder) not in {first, ""}
