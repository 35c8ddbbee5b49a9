"""Weights: found, converted once into a cache, mapped from there. Importing this package does not import torch."""
