"""`tts`: English text to speech, on hibari (one small ONNX model, 24 kHz)."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from omniflow.roles import InvalidInput, Role, RoleContext, current, method
from omniflow.types import Audio, Stream, Text
from omniflow_workers.roles.sentences import sentences

SLOWEST, FASTEST = 0.5, 2.0


class TtsOptions(BaseModel):
    """The role's part of the cluster file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    voice: str = "heart"
    threads: int = Field(default=1, ge=1)


class Tts(Role):
    """Speaks text, a frame of sound for each sentence, from the first sentence of the stream on."""

    def load(self, context: RoleContext) -> None:
        """Loads the voice and the pronunciation rules, so that the first sentence does not pay for them."""
        from hibari import Hibari

        options = context.parse(TtsOptions)
        self._voice: Any = Hibari(voice=options.voice, threads=options.threads)
        self._voice("Ready.", seed=0)

    @method
    def speak(self, text: Stream[Text], *, speed: float = 1.0) -> Stream[Audio]:
        """`speed`: 1.0 is the voice's own pace, from 0.5 (slow) to 2.0. Mono, 16 bit."""
        if not SLOWEST <= speed <= FASTEST:
            raise InvalidInput("speed", f"a speed of {speed:g}", cure=f"give {SLOWEST:g} to {FASTEST:g}")
        import numpy as np

        activation = current()
        noise = np.random.default_rng(activation.seed)
        seconds = 0.0
        for sentence in sentences(text, self._voice.split_sentences):
            for samples in self._samples(sentence, speed, noise):
                seconds += len(samples) / self._voice.sample_rate
                activation.features["audio_seconds"] = seconds
                whole = (np.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2")
                yield Audio.from_array(whole, self._voice.sample_rate)

    def _samples(self, sentence: str, speed: float, noise: Any) -> Iterable[Any]:
        """One array for each part of the sentence that the model takes at once; none for what cannot be spoken."""
        for phonemes in self._voice.phonemize(sentence):
            samples = self._voice.from_ids(self._voice.ids(phonemes), speed, noise)
            if len(samples):
                yield samples
