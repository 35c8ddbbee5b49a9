"""A process that reads arenas of another one in place, also after that was killed, and says what it has left over."""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch

from omniflow_core import ArenaChannel, BlobPlace
from omniflow_workers.arenas import open_arena, pool_tensor, tensor_over

PATIENCE = 150.0  # torch takes its time to import where much else runs


def main(descriptor: int) -> None:
    channel = ArenaChannel.of(descriptor)
    os.close(descriptor)
    torch.zeros(1).sum()  # whatever torch opens at its first use is open now
    before = descriptors()
    read(channel)
    gc.collect()
    report = {
        "descriptors": descriptors() - before,
        "mappings": Path("/proc/self/maps").read_text().count("omniflow-"),
        "hung_up": channel.hung_up,
    }
    print(json.dumps(report), flush=True)


def read(channel: ArenaChannel) -> None:
    kv, blobs = (open_arena(offered) for offered in channel.take(patience=PATIENCE))
    told = json.loads(channel.receive(patience=PATIENCE)[0])
    pages = pool_tensor(kv, torch.float32, (1024,))
    ids, generations = np.array(told["pages"], np.uint32), np.array(told["generations"], np.uint64)
    offset, nbytes, page, generation = told["place"]
    place = BlobPlace(offset=offset, bytes=nbytes, page=page, generation=generation)
    tensor = tensor_over(blobs.book.blob(place), torch.float32, (50, 100))
    expected = torch.arange(5000, dtype=torch.float32).view(50, 100)
    assert torch.equal(tensor, expected)
    channel.send(b"again")
    assert channel.receive(patience=PATIENCE)[0] == b"written"
    assert torch.equal(tensor, expected + 1), "the owner's second write is not seen: there is a copy somewhere"
    print("reading", flush=True)
    assert sys.stdin.readline() == "killed\n"
    assert torch.equal(tensor, expected + 1)
    for each in ids:
        assert bool((pages[int(each)] == int(each)).all())
    kv.book.verify_all(ids, generations)
    blobs.book.verify(place.page, place.generation)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


if __name__ == "__main__":
    main(int(sys.argv[1]))
