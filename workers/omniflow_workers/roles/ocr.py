"""`ocr`: the text in a picture, on RapidOCR (PP-OCR models in ONNX)."""

import threading
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from omniflow.roles import Role, RoleContext, current, method
from omniflow.types import Image, Text
from omniflow_workers.roles.text_rows import as_text, word_of


class OcrOptions(BaseModel):
    """The role's part of the cluster file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    threads: int = Field(default=1, ge=1)
    least_score: float = Field(default=0.5, ge=0, le=1, description="words that the model is less sure of are left out")


class Ocr(Role):
    """Reads printed text in a picture, row by row."""

    def load(self, context: RoleContext) -> None:
        """Loads the models for finding, turning and reading words."""
        from rapidocr_onnxruntime import RapidOCR

        options = context.parse(OcrOptions)
        self._reader: Any = RapidOCR(
            text_score=options.least_score,
            intra_op_num_threads=options.threads,
            inter_op_num_threads=1,
            print_verbose=False,
        )
        self._lock = threading.Lock()

    @method
    def read(self, image: Image) -> Text:
        """One line for each row of words, from top to bottom; empty when the picture shows none."""
        pixels = image.array()
        with self._lock:
            found, _ = self._reader(pixels[:, :, ::-1])
        words = [word_of(box, text) for box, text, _score in found or []]
        current().features.update(pixels=float(image.width * image.height), words=float(len(words)))
        return as_text(words)
