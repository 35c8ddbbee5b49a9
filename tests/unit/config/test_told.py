"""A supervisor in the background gets the cluster as its caller has it."""

from pathlib import Path

from omniflow.config import load_cluster
from omniflow.launch.told import read_told, write_told

ROOT = Path(__file__).parents[3]


def test_changes_to_a_file_that_was_read_reach_the_supervisor(tmp_path: Path) -> None:
    file = ROOT / "examples" / "trivial" / "cluster.yaml"
    config = load_cluster(file)
    changed = config.model_copy(update={"scheduler": config.scheduler.model_copy(update={"listen": "127.0.0.1:1"})})
    told = read_told(write_told(changed, tmp_path))
    assert told.scheduler.listen == "127.0.0.1:1"
    assert told.run == tmp_path
    assert told.file == file
    assert (told.workers, told.flows) == (config.workers, config.flows)
