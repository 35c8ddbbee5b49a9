"""Flows over puppets. `first` and `third` are served by one worker each, `second` by two."""

from omniflow.flow import flow, use
from omniflow.types import Image, Stream, Text
from tests.cluster_fixtures.puppets import Loner, Puppet

first = use(Puppet, "first")
second = use(Puppet, "second")
third = use(Puppet, "third")
loner = use(Loner)


@flow
def chain(text: Text) -> Text:
    """Goes through every role: what the next job is, after a fault."""
    return third.echo(second.echo(first.echo(text)))


@flow
def told(text: Text) -> Text:
    return first.tell(text)


@flow
def held(text: Text) -> Text:
    """Held by the one worker of its role."""
    return first.hold(text)


@flow
def held_by_one_of_two(text: Text) -> Text:
    return second.hold(text)


@flow
def ignored(text: Text) -> Text:
    return second.ignore(text)


@flow
def ignored_by_the_loner(text: Text) -> Text:
    return loner.ignore(text)


@flow
def echoed_by_the_loner(text: Text) -> Text:
    return loner.echo(text)


@flow
def gripped(text: Text) -> Text:
    return first.grip(text)


@flow
def failing(text: Text) -> Text:
    return third.echo(second.fail(first.echo(text)))


@flow
def lying(text: Text) -> Text:
    return first.lie(text)


@flow
def looked_at(image: Image) -> Text:
    return third.echo(first.look(image))


@flow
def held_in_the_middle(text: Text) -> Text:
    return third.tell(second.hold(first.tell(text)))


@flow
def streamed_through_the_middle(text: Text) -> Text:
    """`second` stops after two words, while `first` has sent all."""
    return third.gather(second.relay(first.words(text), pause=2))


@flow
def streamed(text: Text) -> Text:
    return third.gather(second.relay(first.words(text)))


@flow
def streamed_out(text: Text) -> Stream[Text]:
    return third.words(second.echo(first.echo(text)))


@flow
def spoken(text: Text) -> Stream[Text]:
    """Stops after three words."""
    return third.words(first.echo(text), pause=3)


@flow
def guessed(text: Text) -> Stream[Text]:
    return third.guess(text, pause=2)


@flow
def improvised(text: Text) -> tuple[Stream[Text], Stream[Text]]:
    """Stops after three words, which the client hears, and hears relayed."""
    words = second.improvise(text, pause=3)
    return words, first.relay(words)
