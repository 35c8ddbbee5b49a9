"""An agent that answers in parts: each is text, a picture or sound, as it chooses, until it has said all."""

from agent_roles import Draft, Painter, Part, Planner, Speaker, Writer

from omniflow import Stream, Text, flow, loop, route, use

planner = use(Planner)
writer = use(Writer)
painter = use(Painter)
speaker = use(Speaker)


@flow
def compose(request: Text) -> Stream[Part]:
    """The parts, each as soon as it's made."""

    def part(todo: Text) -> Draft:
        plan = planner.next(todo)
        return route(
            plan.kind,
            text=lambda: writer.write(plan.todo),
            image=lambda: painter.draw(plan.todo),
            audio=lambda: speaker.say(plan.todo),
        )

    return loop(part, start=planner.begin(request), until="done", emit="part", max_rounds=32)
