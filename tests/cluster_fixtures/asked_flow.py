"""The language model, alone and with somebody who speaks its answer."""

from omniflow import Stream, Text, flow, use
from omniflow.roles import Role, method
from omniflow_workers.roles.llm import Llm


class Speaker(Role):
    """Says what it hears, piece by piece."""

    @method
    def speak(self, words: Stream[Text]) -> Stream[Text]:
        yield from words


llm = use(Llm)
speaker = use(Speaker)


@flow
def asked(question: Text) -> Stream[Text]:
    return llm.chat(question, max_tokens=48)


@flow
def spoken_answer(question: Text) -> tuple[Stream[Text], Stream[Text]]:
    words = llm.chat(question, max_tokens=48)
    return words, speaker.speak(words)
