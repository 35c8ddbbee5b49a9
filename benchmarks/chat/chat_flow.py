"""A question, and its answer as it is made."""

from omniflow import Stream, Text, flow, use
from omniflow_workers.roles.llm import Llm

llm = use(Llm)


@flow
def chat(question: Text) -> Stream[Text]:
    """One node."""
    return llm.chat(question)
