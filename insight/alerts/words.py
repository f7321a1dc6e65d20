"""What an alert says, in both languages."""

from typing import Any

from django.utils.translation import override

from insight.causes import Text
from insight.models import Alert
from registry.reasons import in_words

_TEXTS: dict[str, Text] = {
    Alert.Kind.AGENT_OFFLINE: Text(
        "No instance of {name} takes work any more ({reason}). Its tasks wait, or fail when their time is over.",
        "{name} 已没有可接收任务的实例（{reason}）。其任务会等待，到期则失败。",
    ),
    Alert.Kind.INSTANCES_OFFLINE: Text(
        "{out} instances of {name} are out ({reason}); {others} others take their work.",
        "{name} 有 {out} 个实例离线（{reason}）；其余 {others} 个实例接手其工作。",
    ),
    Alert.Kind.BREAKER_OPEN: Text(
        "Breakers are open at {name} after failures: {open} instances get no tasks, and {forClients} clients do not "
        "reach all of them. A single task tries again by itself after the cool-down.",
        "{name} 因连续失败已熔断：{open} 个实例不再接收任务，{forClients} 个客户端无法到达其全部实例。"
        "冷却期过后会自动用单个任务试探。",
    ),
    Alert.Kind.CALLBACK_FAILING: Text(
        "The receiver of {name} has refused {callbacks} callbacks {deliveries} times ({lastError}). They are tried on.",
        "{name} 的接收方已拒收 {callbacks} 个回调，最多 {deliveries} 次（{lastError}）。仍在重试。",
    ),
    Alert.Kind.CALLBACK_DEAD: Text(
        "{callbacks} callbacks to {name} were given up ({lastError}). Redeliver them once the receiver is well.",
        "发给 {name} 的 {callbacks} 个回调已放弃（{lastError}）。接收方恢复后请重新投递。",
    ),
    Alert.Kind.QUEUE_AGE: Text(
        "{tasks} tasks of {name} are due and not sent yet, the oldest for {oldestSeconds} s.",
        "{name} 有 {tasks} 个任务到期未发送，最久已等待 {oldestSeconds} 秒。",
    ),
    Alert.Kind.SUCCESS_LOW: Text(
        "Of the last {ended} tasks of {name} a share of {success} succeeded; {target} is wanted.",
        "{name} 最近 {ended} 个任务的成功率为 {success}，目标为 {target}。",
    ),
    Alert.Kind.LATENCY_SHIFTED: Text(
        "{name} answers, but slowly: 95 of 100 within {p95Ms} ms, usually within {usualP95Ms} ms.",
        "{name} 有应答但变慢：95% 在 {p95Ms} 毫秒内，平时为 {usualP95Ms} 毫秒。",
    ),
}


class _Given(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "–"


def message_of(alert: Alert) -> Text:
    """One sentence about it."""
    text = _TEXTS[alert.kind]
    known = {key: value for key, value in alert.details.items() if value not in (None, "")}
    given = _Given({**known, "name": alert.subject.partition(":")[2]})
    return Text(text.en.format_map(given), text.zh.format_map(_Given({**given, "reason": _reason_zh(given)})))


def _reason_zh(given: _Given) -> str:
    with override("zh-hans"):
        return in_words(given["reason"])
