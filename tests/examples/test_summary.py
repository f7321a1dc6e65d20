import pytest

from examples.agent_server import PayloadError
from examples.summariser.agent import invoke
from examples.summariser.summary import split_sentences, summarise

ENGLISH = (
    "The export of reports fails for large teams. Reports with many rows make the export stop with an error. "
    "The weather was fine on Monday. Smaller teams export reports without an error."
)
CHINESE = "客服系统从上周开始变慢。客服系统打开工单要十秒。今天食堂的菜不错。请尽快修复客服系统打开慢的问题！"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Lee paid 3.5 euros. Why?", ["Dr. Lee paid 3.5 euros.", "Why?"]),
        ("See example.com. Thanks!", ["See example.com.", "Thanks!"]),
        ("打不开。为什么？请看看！", ["打不开。", "为什么？", "请看看！"]),
        ("first line\nsecond line", ["first line", "second line"]),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    ("text", "unrelated"), [(ENGLISH, "The weather was fine on Monday."), (CHINESE, "今天食堂的菜不错。")]
)
def test_a_summary_leaves_out_what_is_unrelated(text: str, unrelated: str) -> None:
    assert unrelated not in summarise(text, 3)


def test_chosen_sentences_keep_their_order() -> None:
    chosen = summarise(ENGLISH, 2)
    assert chosen == sorted(chosen, key=ENGLISH.index)


def test_a_short_text_is_its_own_summary() -> None:
    data, _ = invoke({"text": "One. Two."})
    assert data == {"summary": "One. Two.", "sentences": ["One.", "Two."], "ratio": 1.0}


@pytest.mark.parametrize("payload", [{}, {"text": " "}, {"text": 5}, {"text": "a", "maxSentences": 0}])
def test_a_payload_that_cannot_be_summarised_is_refused(payload: dict[str, object]) -> None:
    with pytest.raises(PayloadError):
        invoke(payload)
