"""When the page is made: somebody asks, and something changed."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from runner.serve import renderer as module
from runner.serve.renderer import Renderer


class Made:
    """A stand-in for the report: counts, and waits where it is told to."""

    def __init__(self) -> None:
        self.state = 0
        self.numbers: list[int] = []
        self.error = ""
        self.go = threading.Event()
        self.go.set()

    def make(self, number: int) -> bytes:
        self.numbers.append(number)
        self.go.wait(10)
        if self.error:
            raise ValueError(self.error)
        return f"page {number} of state {self.state}".encode()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setattr(module, "LEAST_S", 0.0)
    monkeypatch.setattr(module, "SHARE", 0)
    monkeypatch.setattr(module, "ASKS_S", 0.0)
    return Made()


@contextmanager
def rendering(made: Made) -> Iterator[Renderer]:
    renderer = Renderer(made.make, lambda: made.state, b"wait")
    try:
        yield renderer
    finally:
        made.go.set()
        renderer.close()


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_nothing_is_made_until_somebody_asks(made: Made) -> None:
    with rendering(made) as renderer:
        made.state = 1
        time.sleep(0.2)
        assert made.numbers == []
        assert renderer.page().content == b"wait"
        until(lambda: renderer.page().version == 1)


def test_it_is_made_anew_when_something_changed_and_only_then(made: Made) -> None:
    with rendering(made) as renderer:
        until(lambda: renderer.page().version == 1)
        for _ in range(20):
            assert renderer.page().content == b"page 1 of state 0"
        made.state = 1
        until(lambda: renderer.page().content == b"page 2 of state 1")
        assert made.numbers == [1, 2]


def test_readers_have_the_old_one_while_a_new_one_is_made(made: Made) -> None:
    with rendering(made) as renderer:
        until(lambda: renderer.page().version == 1)
        made.go.clear()
        made.state = 1
        until(lambda: renderer.page() and len(made.numbers) == 2)
        assert renderer.page().version == 1


def test_what_cannot_be_made_is_said_and_the_last_one_stays(made: Made) -> None:
    with rendering(made) as renderer:
        until(lambda: renderer.page().version == 1)
        made.error, made.state = "the folder is gone", 1
        until(lambda: renderer.page().problem == "the folder is gone")
        assert renderer.page().content == b"page 1 of state 0"
        made.error, made.state = "", 2
        until(lambda: renderer.page().content == b"page 2 of state 2")
        assert renderer.page().problem == ""


def test_at_the_end_who_looks_is_waited_for_until_the_last_page_was_sent(made: Made) -> None:
    with rendering(made) as renderer:
        until(lambda: renderer.page().version == 1)
        made.state = 1
        ending = threading.Thread(target=renderer.finish, args=(60.0, 60.0))
        ending.start()
        until(lambda: renderer.page().version == 2)
        until(lambda: renderer.over)
        assert ending.is_alive()
        assert renderer.page().content == b"page 2 of state 1"
        assert ending.is_alive()  # it may be on its way
        renderer.sent(2)
        ending.join(20)
        assert not ending.is_alive()


def test_who_else_looks_has_the_time_to_ask_for_it(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASKS_S", 0.5)
    with rendering(made) as renderer:
        until(lambda: renderer.page().version == 1)
        renderer.sent(1)
        began = time.monotonic()
        renderer.finish(60.0, 60.0)
        assert 0.3 < time.monotonic() - began < 20


def test_nobody_is_waited_for_where_nobody_looks(made: Made) -> None:
    with rendering(made) as renderer:
        renderer.finish(60.0, 60.0)
        assert made.numbers == []


def test_who_does_not_take_it_is_not_waited_for(made: Made) -> None:
    with rendering(made) as renderer:
        until(lambda: renderer.page().version == 1)
        renderer.finish(60.0, 0.3)


def test_one_that_is_made_slowly_may_be_taken_after_that(made: Made) -> None:
    with rendering(made) as renderer:
        until(lambda: renderer.page().version == 1)
        made.go.clear()
        made.state = 1
        ending = threading.Thread(target=renderer.finish, args=(60.0, 2.0))
        ending.start()
        time.sleep(2.3)
        assert ending.is_alive()
        made.go.set()
        until(lambda: renderer.over)
        renderer.sent(renderer.page().version)
        ending.join(20)
        assert not ending.is_alive()


def test_one_that_is_never_made_is_not_waited_for(made: Made) -> None:
    with rendering(made) as renderer:
        until(lambda: renderer.page().version == 1)
        made.go.clear()
        made.state = 1
        renderer.finish(0.3, 60.0)
