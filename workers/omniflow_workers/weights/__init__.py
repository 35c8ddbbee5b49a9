"""Weights: found, converted once into a cache, mapped from there, held once for a device.

Roles ask for them with `store_of(context.device)`. Importing this package does not import torch.
"""

from omniflow_workers.weights.store import HeldWeights, WeightsStore, store_of

__all__ = ["HeldWeights", "WeightsStore", "store_of"]
