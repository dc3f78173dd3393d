"""Publish and subscribe for scripts."""

from __future__ import annotations

import pytest

from respmq import DeliveryError, InvalidRequestError, InvalidTopicError, PubSub


def test_everyone_gets_a_copy() -> None:
    news = PubSub()
    heard: list[tuple[str, str, object]] = []

    def weather_fan(topic: str, message: object) -> None:
        heard.append(("weather_fan", topic, message))

    def news_fan(topic: str, message: object) -> None:
        heard.append(("news_fan", topic, message))

    assert news.subscribe("weather", weather_fan)
    assert not news.subscribe("weather", weather_fan)
    news.subscribe("weather", news_fan)
    news.subscribe("sport.*", news_fan)
    assert news.topics == ["weather", "sport.*"]
    assert news.publish("weather", "sunny") == 2
    assert heard == [("weather_fan", "weather", "sunny"), ("news_fan", "weather", "sunny")]
    assert news.publish("sport.tennis", {"set": [6, 4]}) == 1
    assert heard[-1] == ("news_fan", "sport.tennis", {"set": [6, 4]})
    assert news.unsubscribe("weather", news_fan)
    assert not news.unsubscribe("weather", news_fan)
    assert not news.unsubscribe("nothing", news_fan)
    assert news.publish("weather", "rain") == 1
    news.unsubscribe("weather", weather_fan)
    assert news.topics == ["sport.*"]
    assert news.publish("weather", "snow") == 0


@pytest.mark.parametrize("message", ["text", '{"a": 1}', b"bytes", 5, None, [1, {"a": 2}]])
def test_messages_come_as_they_were(message: str | bytes | int | list[object] | None) -> None:
    news = PubSub()
    heard: list[object] = []
    news.subscribe("t", lambda topic, message: heard.append(message))
    news.publish("t", message)
    assert heard == [message]


def test_those_who_fail_are_told_of_once_everybody_was_served() -> None:
    news = PubSub()
    heard: list[object] = []

    def fails(topic: str, message: object) -> None:
        raise ValueError("no umbrella")

    def fails_too(topic: str, message: object) -> None:
        raise KeyError("x")

    news.subscribe("weather", fails)
    news.subscribe("weather", lambda topic, message: heard.append(message))
    news.subscribe("weather", fails_too)
    with pytest.raises(DeliveryError, match="2 of the handlers of 'weather' failed") as error:
        news.publish("weather", "rain")
    assert heard == ["rain"]
    assert error.value.topic == "weather"
    assert [handler for handler, _ in error.value.failures] == [fails, fails_too]
    assert [type(raised) for _, raised in error.value.failures] == [ValueError, KeyError]
    assert "fails: ValueError: no umbrella" in str(error.value)
    assert error.value.__cause__ is error.value.failures[0][1]


def test_handlers_may_subscribe_and_publish_in_turn() -> None:
    news = PubSub()
    heard: list[tuple[str, object]] = []

    def chain(topic: str, message: object) -> None:
        heard.append((topic, message))
        if topic == "first":
            news.subscribe("first", late)
            news.publish("second", message if isinstance(message, str) else "")

    def late(topic: str, message: object) -> None:
        heard.append(("late", message))

    news.subscribe("first", chain)
    news.subscribe("second", chain)
    news.publish("first", "x")
    assert heard == [("first", "x"), ("second", "x")]
    news.publish("first", "y")
    assert heard[-1] == ("late", "y")


def test_what_can_not_be() -> None:
    news = PubSub()
    with pytest.raises(InvalidTopicError):
        news.subscribe("no blanks", print)
    assert news.topics == []
    with pytest.raises(InvalidTopicError):
        news.publish("a.*", "x")
    with pytest.raises(InvalidRequestError, match="can't be encoded"):
        news.publish("a", float("nan"))
