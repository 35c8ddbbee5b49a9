"""Engines: what computes with a model's weights on pages that the worker allocates. `base` is the protocol."""
