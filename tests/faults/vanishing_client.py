"""A client that gets killed: `vanishing_client.py ADDRESS FLOW detach|attached`. Prints its job's id, then waits."""

import sys

from omniflow.client import SyncClient

address, flow, mode = sys.argv[1:]
with SyncClient(address) as client:
    print(client.submit(flow, {"text": "x"}, detach=mode == "detach").id, flush=True)
    sys.stdin.read()
