"""What docs/flows.md and docs/roles.md show is true: every snippet runs, every message is the real one."""

import re
from pathlib import Path

import pytest

from omniflow.errors import BadFlow
from omniflow.flow import load_flows

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"^```(\w+)( mistake)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, bool, str]]:
    """(language, whether it is a mistake, text) of each fenced block."""
    found = BLOCK.findall((DOCS / page).read_text())
    return [(language, bool(mistake), text) for language, mistake, text in found]


def module_of(page: str, tmp_path: Path, more: str = "") -> Path:
    """The page's right snippets as one module."""
    path = tmp_path / f"{page.removesuffix('.md')}_page.py"
    right = [text for language, mistake, text in blocks(page) if language == "python" and not mistake]
    path.write_text("\n".join([*right, more]))
    return path


@pytest.mark.parametrize("page", ["flows.md", "roles.md"])
def test_the_snippets_run_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    path = module_of(page, tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert len(blocks(page)) > 4


def test_the_flows_shown_compile(tmp_path: Path) -> None:
    flows = load_flows(str(module_of("flows.md", tmp_path)))
    assert {"speak_about", "read_pdf", "assist", "research", "polish", "compose", "aloud"} <= {
        flow.name for flow in flows
    }
    assert [problem.render() for flow in flows for problem in flow.problems()] == []


def test_the_mistakes_shown_give_the_messages_shown(tmp_path: Path) -> None:
    shown = blocks("flows.md")
    mistakes = [index for index, (_, mistake, _) in enumerate(shown) if mistake]
    assert len(mistakes) == 3
    for index in mistakes:
        folder = tmp_path / str(index)
        folder.mkdir()
        (flow,) = load_flows(f"{module_of('flows.md', folder, shown[index][2])}:wrong")
        with pytest.raises(BadFlow) as caught:
            flow.to_proto()
        language, _, message = shown[index + 1]
        assert language == "text"
        for line in message.splitlines():
            assert line in str(caught.value).splitlines()
