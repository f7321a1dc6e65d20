"""Reasons are kept in English and said in the reader's language."""

import re
from pathlib import Path

import pytest
from django.utils.translation import override

from registry.health import rule
from registry.reasons import in_words

REASONS = {
    "it left": "已主动下线",
    "not heard for 45 s": "已有 45 秒没有心跳",
    "3 failed probes in a row, the last: HTTP 500": "连续 3 次探测失败，最近一次：HTTP 500",
    "3 failed probes in a row, the last: failed": "连续 3 次探测失败，最近一次：失败",
    "ejected: its last 5 calls reached nobody": "已被剔除：最近 5 次调用都无法连接",
    "ejected: 3 failed probes in a row, the last: a; b; its calls succeed": (
        "已被剔除：连续 3 次探测失败，最近一次：a; b；但实际调用成功"
    ),
    "nothing but failed calls for 31 s (4, the last: TIMEOUT)": "31 秒内的调用全部失败（共 4 次，最近一次：TIMEOUT）",
    "25% of its last 12 calls failed": "最近 12 次调用中有 25% 失败",
    "95% of its calls take up to 900 ms, over 300 ms": "95% 的调用耗时达 900 毫秒，超过 300 毫秒",
    "it reports db: down": "自报异常：db: down",
    "it reports degraded": "自报状态为降级",
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_is_said_in_chinese_and_stays_english_in_english(reason):
    with override("zh-hans"):
        assert in_words(reason) == REASONS[reason]
    with override("en"):
        assert in_words(reason) == reason


@pytest.mark.parametrize("reason", ["", "HTTP 500", "{why}", "it left {x}", "connection refused"])
def test_other_words_stay_as_they_are(reason):
    with override("zh-hans"):
        assert in_words(reason) == reason


def test_every_sentence_of_the_rule_is_known():
    source = Path(rule.__file__).read_text("utf-8")
    sentences = re.findall(r'(?:Verdict\(\w+, |return |why = |state, )f?"([a-z0-9{][^"]{5,})"', source)
    assert len(sentences) >= 10
    for sentence in sentences:
        sample = re.sub(r"\{[^}]*\}", "7", sentence.replace("{EJECTED}", rule.EJECTED))
        with override("zh-hans"):
            assert in_words(sample) != sample, sample
