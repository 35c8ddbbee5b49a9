"""The language model alone."""

from omniflow import Stream, Text, flow, use
from omniflow_workers.roles.llm import Llm

llm = use(Llm)


@flow
def asked(question: Text) -> Stream[Text]:
    return llm.chat(question, max_tokens=48)
