"""The llm role's model under Hugging Face `generate`, in a process of its own; takes orders on standard input.

An order `{"question": …, "tokens": …}` is answered by `{"tokens": …, "seconds": …}`: greedy, fp32, from text to text,
an answer of exactly `tokens`.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Loads the model and takes orders until standard input ends."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    weights = Path(sys.argv[1])
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(weights.parent), gguf_file=weights.name, dtype=torch.float32, local_files_only=True
    )
    tokenizer: Any = AutoTokenizer.from_pretrained(str(weights.parent), gguf_file=weights.name, local_files_only=True)
    print(json.dumps({"ready": "Hugging Face generate"}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        started = time.perf_counter()
        found = tokenizer.apply_chat_template(
            [{"role": "user", "content": order["question"]}],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )
        prompt = found["input_ids"].shape[1]
        length = {"max_new_tokens": order["tokens"], "min_new_tokens": order["tokens"]}
        with torch.inference_mode():
            ids = model.generate(**found, **length, do_sample=False)
        text = tokenizer.decode(ids[0, prompt:], skip_special_tokens=True)
        seconds = time.perf_counter() - started
        answer = {"prompt": prompt, "tokens": ids.shape[1] - prompt, "seconds": seconds, "text": text}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
