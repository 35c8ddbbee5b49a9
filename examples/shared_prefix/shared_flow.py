"""A question to one worker or to the other: two names for the role, so that it is known here whose pages are whose."""

from omniflow import Stream, Text, flow, use
from omniflow_workers.roles.llm import Llm

first = use(Llm, "first")
second = use(Llm, "second")


@flow
def ask_first(document: Text, question: Text, *, max_tokens: int = 12) -> Stream[Text]:
    return first.chat(question, context=document, max_tokens=max_tokens)


@flow
def ask_second(document: Text, question: Text, *, max_tokens: int = 12) -> Stream[Text]:
    return second.chat(question, context=document, max_tokens=max_tokens)
