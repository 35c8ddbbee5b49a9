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
from omniflow_workers.weights.format import Weights

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_pytorch_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
}
_STORED = ".input_major"
_ATTENTION = {"q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"}
_LAYER = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}


class NotLlama(Exception):  # noqa: N818  no failure: the model goes through transformers
    """The weights are not those of a decoder built like Llama."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's weights, products input-major."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    out: torch.Tensor
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, slots=True)
class Rotary:
    """cos and sin by position, shape (context, 1, dim / 2), from a model's own inverse frequencies."""

    cos: torch.Tensor
    sin: torch.Tensor

    @classmethod
    def of(cls, inverse_frequencies: torch.Tensor, scaling: float, context: int) -> Rotary:
        angles = torch.arange(context, dtype=torch.float32)[:, None] * inverse_frequencies[None, :]
        return cls((angles.cos() * scaling).unsqueeze(1), (angles.sin() * scaling).unsqueeze(1))


@dataclass(frozen=True, slots=True)
class LlamaDecoder:
    """`Decoder` over mapped weights, without transformers."""

    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    activation: Callable[[torch.Tensor], torch.Tensor]
    embedding: torch.Tensor
    norm: torch.Tensor
    head: torch.Tensor  # (vocabulary, width)
    rotary: Rotary
    layers: list[Layer] = field(repr=False)

    def hidden(self, tokens: torch.Tensor, positions: torch.Tensor, attention: StepAttention) -> torch.Tensor:
        cos, sin = self.rotary.cos[positions], self.rotary.sin[positions]
        hidden = self.embedding[tokens]
        for index, layer in enumerate(self.layers):
            normed = self._norm(hidden, layer.input_norm)
            hidden = torch.addmm(hidden, self._attend(index, layer, normed, cos, sin, attention), layer.out)
            normed = self._norm(hidden, layer.post_norm)
            gate, up = torch.mm(normed, layer.gate_up).chunk(2, dim=-1)
            hidden = torch.addmm(hidden, self.activation(gate).mul_(up), layer.down)
        return self._norm(hidden, self.norm)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return functional.linear(hidden, self.head)

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
        product = torch.mm(normed, layer.qkv)
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
        scale = torch.mean(x * x, dim=-1, keepdim=True).add_(self.epsilon).rsqrt_()
        return (x * scale).mul_(weight)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates pairs (i, i + dim / 2). `x`: (rows, heads, dim); `cos`, `sin`: (rows, 1, dim / 2)."""
    first, second = x.chunk(2, dim=-1)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    left, right = out.chunk(2, dim=-1)
    torch.mul(first, cos, out=left)
    left.addcmul_(second, sin, value=-1)
    torch.mul(second, cos, out=right)
    right.addcmul_(first, sin)
    return out


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
        head_dim=layers[0].out.shape[0] // heads,
        epsilon=config["rms_norm_eps"],
        activation=activation,
        embedding=embedding,
        norm=named["model.norm.weight"],
        head=named.get("lm_head.weight", embedding),
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
    def product(name: str) -> torch.Tensor:
        tensor = stored.get(f"{at}.{name}.weight{_STORED}")
        if tensor is None:
            raise NotLlama(f"{at}.{name} is not there")
        return tensor

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
