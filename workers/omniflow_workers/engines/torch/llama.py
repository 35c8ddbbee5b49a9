"""Decoders built like Llama, in as few operations a layer as it takes; and how to tell that a model is one.

A step of one token costs a framework more in small operations than in arithmetic. Here a layer is about 25 operations
instead of about 70. Whether it computes what the Hugging Face class computes is tried on each model when its weights
are converted (`agrees`), never assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional

from omniflow_workers.engines.torch.attention import StepAttention
from omniflow_workers.engines.torch.product import Product
from omniflow_workers.weights.format import JOINED, Weights

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_pytorch_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
}
_ATTENTION = {"q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"}
_LAYER = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}


class NotLlama(Exception):  # noqa: N818  no failure: the model goes through transformers
    """The weights are not those of a decoder built like Llama."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's weights."""

    input_norm: torch.Tensor
    qkv: Product
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    out: Product
    post_norm: torch.Tensor
    gate_up: Product
    down: Product


@dataclass(frozen=True, slots=True)
class Rotary:
    """cos and sin by position, shape (context, 1, dim), from a model's own inverse frequencies.

    Each twice side by side, the first sin negated: what belongs to either half of a head.
    """

    cos: torch.Tensor
    sin: torch.Tensor

    @classmethod
    def of(cls, inverse_frequencies: torch.Tensor, scaling: float, context: int) -> Rotary:
        angles = torch.arange(context, dtype=torch.float32)[:, None] * inverse_frequencies[None, :]
        cos, sin = angles.cos() * scaling, angles.sin() * scaling
        return cls(torch.cat((cos, cos), dim=-1).unsqueeze(1), torch.cat((-sin, sin), dim=-1).unsqueeze(1))


@dataclass(frozen=True, slots=True)
class LlamaDecoder:
    """`Decoder` over mapped weights, without transformers."""

    heads: int
    kv_heads: int
    head_dim: int
    epsilon: torch.Tensor  # shape ()
    activation: Callable[[torch.Tensor], torch.Tensor]
    embedding: torch.Tensor
    norm: torch.Tensor
    head: Product
    rotary: Rotary
    layers: list[Layer] = field(repr=False)

    def hidden(self, tokens: torch.Tensor, positions: torch.Tensor, attention: StepAttention) -> torch.Tensor:
        cos, sin = self.rotary.cos[positions], self.rotary.sin[positions]
        hidden = self.embedding[tokens]
        for index, layer in enumerate(self.layers):
            normed = self._norm(hidden, layer.input_norm)
            layer.out.add_to(hidden, self._attend(index, layer, normed, cos, sin, attention))
            normed = self._norm(hidden, layer.post_norm)
            gate, up = layer.gate_up(normed).chunk(2, dim=-1)
            layer.down.add_to(hidden, self.activation(gate).mul_(up))
        return self._norm(hidden, self.norm)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.head(hidden)

    def _attend(
        self,
        index: int,
        layer: Layer,
        normed: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        attention: StepAttention,
    ) -> torch.Tensor:
        rows, heads, both = len(normed), self.heads, self.heads + self.kv_heads
        product = layer.qkv(normed)
        qkv = product if layer.qkv_bias is None else product.add_(layer.qkv_bias)
        qkv = qkv.view(rows, both + self.kv_heads, self.head_dim)
        turned = qkv[:, :both]
        if layer.q_norm is not None and layer.k_norm is not None:
            turned = torch.cat(
                (self._norm(turned[:, :heads], layer.q_norm), self._norm(turned[:, heads:], layer.k_norm)), dim=1
            )
        turned = _rotate(turned, cos, sin)
        found = attention.attend(index, turned[:, :heads], turned[:, heads:], qkv[:, both:], self.head_dim**-0.5)
        return found.reshape(rows, heads * self.head_dim)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = torch.addcmul(self.epsilon, length, length, value=1 / x.shape[-1]).rsqrt_()
        return (x * scale).mul_(weight)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates pairs (i, i + dim / 2). `x`: (rows, heads, dim); `cos`, `sin`: (rows, 1, dim), as in `Rotary`."""
    return (x * cos).addcmul_(x.roll(x.shape[-1] // 2, -1), sin)


def build(config: Mapping[str, Any], weights: Weights, rotary: Rotary) -> LlamaDecoder:
    """The decoder of these weights. Raises `NotLlama` naming what is unlike."""
    named, stored = weights.named, weights.stored
    _check_names(named)
    activation = ACTIVATIONS.get(config["hidden_act"])
    if activation is None:
        raise NotLlama(f"activation {config['hidden_act']}")
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    layers = [_layer(f"model.layers.{i}", named, stored) for i in range(config["num_hidden_layers"])]
    embedding = named["model.embed_tokens.weight"]
    return LlamaDecoder(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=layers[0].out.inputs // heads,
        epsilon=torch.tensor(config["rms_norm_eps"]),
        activation=activation,
        embedding=embedding,
        norm=named["model.norm.weight"],
        head=Product.of(named.get("lm_head.weight", embedding)),
        rotary=rotary,
        layers=layers,
    )


def _check_names(named: Mapping[str, torch.Tensor]) -> None:
    top = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}
    for name, tensor in named.items():
        if tensor.dtype != torch.float32:
            raise NotLlama(f"{name} is {tensor.dtype}")
        if name in top:
            continue
        parts = name.split(".")
        if parts[:2] != ["model", "layers"] or parts[3] not in _LAYER:
            raise NotLlama(name)
        if parts[3] == "self_attn" and parts[4] not in _ATTENTION:
            raise NotLlama(name)
        if parts[-1] == "bias" and parts[4] not in ("q_proj", "k_proj", "v_proj"):
            raise NotLlama(name)


def _layer(at: str, named: Mapping[str, torch.Tensor], stored: Mapping[str, torch.Tensor]) -> Layer:
    def product(name: str) -> Product:
        tensor = stored.get(f"{at}.{name}.weight{JOINED}")
        if tensor is None:
            raise NotLlama(f"{at}.{name} is not there")
        return Product.of(tensor)

    def vector(name: str) -> torch.Tensor:
        tensor = named.get(f"{at}.{name}.weight")
        if tensor is None:
            raise NotLlama(f"{at}.{name} is not there")
        return tensor

    biases = [named.get(f"{at}.self_attn.{each}.bias") for each in ("q_proj", "k_proj", "v_proj")]
    present = [bias for bias in biases if bias is not None]
    if present and len(present) < 3:
        raise NotLlama(f"{at} has biases for some of q, k, v only")
    return Layer(
        input_norm=vector("input_layernorm"),
        qkv=product("self_attn.qkv_proj"),
        qkv_bias=torch.cat(present) if present else None,
        q_norm=named.get(f"{at}.self_attn.q_norm.weight"),
        k_norm=named.get(f"{at}.self_attn.k_norm.weight"),
        out=product("self_attn.o_proj"),
        post_norm=vector("post_attention_layernorm"),
        gate_up=product("mlp.gate_up_proj"),
        down=product("mlp.down_proj"),
    )
