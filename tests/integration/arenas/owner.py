"""A process that makes arenas, passes them on over the descriptor it inherits, and writes when it is told to."""

from __future__ import annotations

import json
import os
import sys

import torch

from omniflow_core import ArenaChannel, ArenaLayout, BlobArena
from omniflow_workers.arenas import CpuArena, pool_tensor, tensor_over

LAYOUT = ArenaLayout("pages", page_bytes=4096, pages=16, fingerprint=bytes(32))
BLOBS = ArenaLayout("blobs", page_bytes=4096, pages=64, fingerprint=bytes(32))


def main(descriptor: int) -> None:
    channel = ArenaChannel.of(descriptor)
    os.close(descriptor)
    kv, blobs = CpuArena.create(LAYOUT), CpuArena.create(BLOBS)
    channel.offer([kv.offered("kv"), blobs.offered("blobs")])
    allocator = kv.book.allocator()
    allocator.adopt(1, 8)
    run = allocator.allocate(3)
    pages = pool_tensor(kv, torch.float32, (1024,))
    for page in memoryview(run):
        pages[page] = page
    image = BlobArena(blobs.book).allocate(5000 * 4)
    tensor = tensor_over(image, torch.float32, (50, 100))
    tensor.copy_(torch.arange(5000).view(50, 100))
    place = image.place
    told = {
        "pages": memoryview(run).tolist(),
        "generations": memoryview(run.generations).cast("Q").tolist(),
        "place": [place.offset, place.bytes, place.page, place.generation],
    }
    channel.send(json.dumps(told).encode())
    channel.receive()  # "again": the reader has the tensor in place
    tensor += 1
    channel.send(b"written")
    channel.receive()  # nothing comes: this process is killed here
    sys.exit("the reader has gone first")


if __name__ == "__main__":
    main(int(sys.argv[1]))
