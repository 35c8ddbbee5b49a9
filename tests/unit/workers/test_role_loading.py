"""A role that does not load stops its worker with one error that names the role and the cure."""

import errno
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from omniflow import Text
from omniflow.errors import InvalidArgument, OmniFlowError
from omniflow.roles import Role, RoleContext, method
from omniflow_workers.config import RoleConfig
from omniflow_workers.host import load_roles, resolve_roles

HERE = __name__


class _Echo(Role):
    @method
    def echo(self, text: Text) -> Text:
        return text


class NeedsMore(_Echo):
    def load(self, context: RoleContext) -> None:
        import a_package_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401


class FillsTheDisk(_Echo):
    def load(self, context: RoleContext) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/cache/weights")


class MayNotWrite(_Echo):
    def load(self, context: RoleContext) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/cache/weights")


class Breaks(_Echo):
    def load(self, context: RoleContext) -> None:
        table: dict[str, int] = {}
        self.row = table["no such key"]


class Holds(_Echo):
    def load(self, context: RoleContext) -> None:
        self.model = SimpleNamespace(fingerprint="ab" * 32)
        self.layout = SimpleNamespace(page_tokens=16, layers=2, page_bytes=4096, describe=lambda: "2xlatent")


class Chooses(_Echo):
    def load(self, context: RoleContext) -> None:
        raise InvalidArgument("option 'steps': too many", field="steps", cure="use 8")


def _error(name: str, tmp_path: Path) -> OmniFlowError:
    roles = resolve_roles([RoleConfig.model_validate({"class": f"{HERE}:{name}", "name": "painter"})])
    with pytest.raises(OmniFlowError) as caught:
        load_roles(roles, "worker", "cpu", tmp_path)
    return caught.value


@pytest.mark.parametrize(
    ("name", "said", "cure"),
    [
        ("NeedsMore", "No module named 'a_package_that_nobody_has'", "omniflow-serving[demo]"),
        ("FillsTheDisk", "No space left on device: '/cache/weights'", "`cache:` in the cluster file"),
        ("MayNotWrite", "Permission denied: '/cache/weights'", "`cache:` in the cluster file"),
        ("Breaks", "KeyError: 'no such key'", "mend the role"),
        ("Chooses", "option 'steps': too many", "use 8"),
    ],
)
def test_whatever_load_raises_names_the_role_and_the_cure(name: str, said: str, cure: str, tmp_path: Path) -> None:
    error = _error(name, tmp_path)
    assert error.message.startswith("role 'painter' does not load: ")
    assert said in error.message
    assert error.field.startswith("roles.painter")
    assert cure in error.cure


def test_what_a_worker_registers_of_a_role_holds_what_only_loading_tells(tmp_path: Path) -> None:
    roles = resolve_roles([RoleConfig.model_validate({"class": f"{HERE}:Holds", "name": "painter"})])
    (loaded,) = load_roles(roles, "worker", "cpu", tmp_path)
    info = loaded.info()
    assert (info.name, info.weights_fingerprint) == ("painter", "ab" * 32)
    assert (info.page_layout.page_tokens, info.page_layout.description) == (16, "2xlatent")
    assert [method.name for method in info.methods] == ["echo"]


def test_a_defect_of_a_role_shows_its_line(tmp_path: Path) -> None:
    assert 'self.row = table["no such key"]' in _error("Breaks", tmp_path).cause


def test_a_module_that_breaks_while_it_is_imported_names_its_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_broken_module.py").write_text("class Painter(\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OmniFlowError, match="SyntaxError") as caught:
        resolve_roles([RoleConfig.model_validate({"class": "a_broken_module:Painter"})])
    assert caught.value.field == "roles[0].class"
    assert "a_broken_module" not in sys.modules
