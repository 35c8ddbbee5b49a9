"""A question answered by two workers, one for the prompt and one for the words; and by one, to compare."""

from omniflow import Stream, Text, flow, use
from omniflow_workers.roles.llm import Llm
from omniflow_workers.roles.llm_decode import LlmDecode
from omniflow_workers.roles.llm_prefill import LlmPrefill

prefill = use(LlmPrefill)
decode = use(LlmDecode)
llm = use(Llm)


@flow
def apart(question: Text, context: Text | None, *, max_tokens: int = 32, temperature: float = 0.0) -> Stream[Text]:
    """The prompt's pages stay where they were computed; only a small record goes from one worker to the other."""
    prompt = prefill.chat(question, context=context)
    return decode.chat(prompt, max_tokens=max_tokens, temperature=temperature)


@flow
def whole(question: Text, context: Text | None, *, max_tokens: int = 32, temperature: float = 0.0) -> Stream[Text]:
    return llm.chat(question, context=context, max_tokens=max_tokens, temperature=temperature)
