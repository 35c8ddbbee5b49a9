"""The `torch` engine: Hugging Face decoders on paged KV. Importing this package does not import torch."""
