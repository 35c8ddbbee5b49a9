"""What the cluster file may say to the `llm` roles."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class EngineOptions(BaseModel):
    """Of every role with a language model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(default="smollm2-135m-instruct", description="a short name, a GGUF file, or a model folder")
    threads: int | None = Field(default=None, ge=1, description="CPU threads of the engine; None: torch's choice")
    page_tokens: int = Field(default=16, ge=1, le=1024)
    kv_bytes: int = Field(default=512 * 1024 * 1024, ge=1, description="of KV that it may have at once; taken as used")
    kv_disk_bytes: int = Field(
        default=0,
        ge=0,
        description="of a file in the cache folder, where pages of prompts outlive the pool and the worker; 0: none",
    )
    running: int = Field(default=16, ge=1, description="prompts and answers computed at once")
    step_tokens: int = Field(default=512, ge=1, description="most tokens of one step")
    mixed_tokens: int = Field(default=256, ge=1, description="most prompt tokens of a step that others wait for too")


class LlmOptions(EngineOptions):
    """Of the roles that answer."""

    reuse: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="pages that other workers have of a prompt: taken when that is cheaper than to compute them, "
        "whenever there are any, or never",
    )


class PrefillOptions(EngineOptions):
    """Of the role that computes prompts for others."""

    hand_over_s: float = Field(default=30.0, gt=0, description="how long the pages of a prompt wait to be taken over")
