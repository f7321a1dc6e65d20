"""Why a task is where it is, in plain words: the table behind the journey's summary, English and Chinese.

Complete over every error code, open state, commit certainty and callback state (held so by its tests).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callbacks.models import CallbackState
from routing.states import Certainty, TaskError, TaskState

CALLER, AGENT, PLATFORM, RECEIVER = "caller", "agent", "platform", "receiver"
SIDES = (CALLER, AGENT, PLATFORM, RECEIVER)


@dataclass(frozen=True, slots=True)
class Text:
    """One sentence in both languages; `{}` fields are filled with `format`."""

    en: str
    zh: str

    def format(self, **values: object) -> "Text":
        return Text(self.en.format(**values), self.zh.format(**values))

    def __add__(self, other: "Text") -> "Text":
        return Text(f"{self.en} {other.en}".strip(), f"{self.zh}{other.zh}")

    def in_language(self, code: str | None) -> str:
        return self.zh if (code or "").lower().startswith("zh") else self.en


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened and on whose side it lies; `side` None = nothing is wrong and nobody is waited for."""

    text: Text
    side: str | None


OPEN_STATES: dict[str, Explanation] = {
    TaskState.RECEIVED: Explanation(
        Text(
            "The task is accepted and waits in the queue for a free worker.", "任务已接收，正在排队等待空闲的工作进程。"
        ),
        PLATFORM,
    ),
    TaskState.ROUTED: Explanation(
        Text("An instance is chosen; the request is about to be sent.", "已选定实例，请求即将发出。"), PLATFORM
    ),
    TaskState.DISPATCHED: Explanation(
        Text("The request was sent to {agent}, which has not answered yet.", "请求已发给 {agent}，对方尚未回应。"),
        AGENT,
    ),
    TaskState.RUNNING: Explanation(
        Text("{agent} has the task and is working on it.", "{agent} 已收到任务，正在处理。"), AGENT
    ),
    TaskState.RETRY_WAIT: Explanation(
        Text("The last attempt failed and another one is scheduled.", "上一次尝试失败，已安排重试。"), AGENT
    ),
}

SCHEDULED = Explanation(
    Text("The caller asked that it start later; its time has not come.", "调用方要求稍后开始，时间未到。"), CALLER
)
NOBODY_FREE = Explanation(
    Text(
        "No instance can take it right now ({reason}), so it waits.",
        "目前没有实例能接收（{reason}），任务在等待。",
    ),
    AGENT,
)

BROKE_OFF = Explanation(
    Text(
        "A worker broke off each time it took the task up, before anything was sent, so the platform gave it up.",
        "每次取出该任务时工作进程都异常中断，请求从未发出，平台已放弃该任务。",
    ),
    PLATFORM,
)
ERRORS: dict[str, Explanation] = {
    TaskError.TIMEOUT: Explanation(
        Text("{agent} did not finish within the time allowed.", "{agent} 未能在规定时间内完成。"), AGENT
    ),
    TaskError.EXPIRED: Explanation(
        Text(
            "The task's time to live ran out before it was finished.",
            "任务在完成之前已超过其存活时间。",
        ),
        PLATFORM,
    ),
    TaskError.NO_INSTANCE: Explanation(
        Text(
            "No instance of an agent for this ability could take it before its time was up.",
            "在时限之内，没有任何可用实例能接收该能力的任务。",
        ),
        AGENT,
    ),
    TaskError.BUDGET_BELOW_SLA: Explanation(
        Text(
            "The caller's remaining time was shorter than the agent says it needs.",
            "调用方剩余的时间短于智能体声明所需的时间。",
        ),
        CALLER,
    ),
    TaskError.SERVICE_UNAVAILABLE: Explanation(
        Text("{agent} said it was busy or unavailable.", "{agent} 表示繁忙或暂不可用。"), AGENT
    ),
    TaskError.INTERNAL_ERROR: Explanation(Text("{agent} had an internal error.", "{agent} 发生内部错误。"), AGENT),
    TaskError.UNREACHABLE: Explanation(
        Text("{agent} could not be reached at its address.", "无法连接到 {agent} 的地址。"), AGENT
    ),
    TaskError.REJECTED: Explanation(
        Text(
            "{agent} refused the request as it was sent; sending the same again will not help.",
            "{agent} 拒绝了该请求；原样重发不会有帮助。",
        ),
        CALLER,
    ),
    TaskError.BAD_RESPONSE: Explanation(
        Text(
            "{agent} answered with something else than it promised (broken, empty or against its schema).",
            "{agent} 的回应不符合其承诺（损坏、为空或不符合输出结构）。",
        ),
        AGENT,
    ),
    TaskError.AGENT_FAILED: Explanation(
        Text("{agent} worked on it and reported a failure of its own.", "{agent} 处理后报告了自身的失败。"), AGENT
    ),
    TaskError.CANCELLED: Explanation(Text("It was cancelled before it ended.", "任务在结束前被取消。"), CALLER),
    TaskError.LOOP_DETECTED: Explanation(
        Text(
            "The task came back to an agent that is already on its own call path.",
            "任务又回到了其调用路径上已有的智能体，形成循环。",
        ),
        CALLER,
    ),
    TaskError.BREAKER_OPEN: Explanation(
        Text(
            "The breaker keeps traffic away from {agent} after too many failures.",
            "{agent} 失败过多，熔断器已暂停对其发送请求。",
        ),
        AGENT,
    ),
    TaskError.MAYBE_RAN: Explanation(
        Text(
            "The request was sent but no answer came; it may have run and must not run twice, so it was not repeated.",
            "请求已发出但没有收到回应；它可能已经执行，且不允许执行两次，因此没有重试。",
        ),
        AGENT,
    ),
    TaskError.BUDGET_EXHAUSTED: Explanation(
        Text("The cost budget for this work is used up.", "该工作的费用预算已用完。"), CALLER
    ),
}

CERTAINTIES: dict[str, Text] = {
    Certainty.NOT_SENT: Text("The request never reached an agent.", "请求从未到达智能体。"),
    Certainty.MAYBE_RAN: Text("An attempt may have done the work all the same.", "某次尝试仍有可能已经执行。"),
    Certainty.RAN: Text("The agent did receive it and answered.", "智能体确实收到并作出了回应。"),
}

SUCCEEDED = Explanation(Text("The task succeeded.", "任务已成功。"), None)
_DEGRADED = {
    "substitute": Text(
        "The answer is a fallback: the agents of {ability} gave it in place of its own.",
        "结果来自降级方案：由 {ability} 的智能体代为回答。",
    ),
    "cached": Text(
        "The answer is a fallback: the last good result of the same request.",
        "结果来自降级方案：同一请求上次的成功结果。",
    ),
    "static": Text(
        "The answer is a fallback: a fixed answer that was given for this case.",
        "结果来自降级方案：预先设定的固定答案。",
    ),
    "partial": Text(
        "The answer is a fallback: what had arrived until it broke off.",
        "结果来自降级方案：中断前已收到的部分。",
    ),
}
LATE = Text(
    "A result came after the end; it is kept but does not change the outcome.",
    "结束之后才收到结果；已保留，但不改变结局。",
)

CALLBACKS: dict[str, Explanation] = {
    "NONE": Explanation(Text("", ""), None),
    CallbackState.PENDING: Explanation(
        Text("The caller has not been told yet.", "尚未通知调用方。"),
        PLATFORM,
    ),
    CallbackState.DELIVERED: Explanation(Text("The caller has been told.", "已通知调用方。"), None),
    CallbackState.DEAD: Explanation(
        Text(
            "The receiver never took the callback and no more deliveries are tried ({error}).",
            "接收方始终没有接受回调，已不再投递（{error}）。",
        ),
        RECEIVER,
    ),
    CallbackState.SUPERSEDED: Explanation(
        Text("A newer callback of the task took this one's place.", "该回调已被同一任务的更新回调取代。"), None
    ),
}
CALLBACK_REFUSED = Explanation(
    Text("The receiver did not take the callback: {error}.", "接收方没有接受回调：{error}。"), RECEIVER
)

NEXT: dict[str, Text] = {
    "claim": Text("A worker takes it as soon as one is free.", "一有空闲的工作进程就会处理。"),
    "start": Text("It starts at its own time.", "到时会自动开始。"),
    "look": Text("It is tried again by itself until its deadline.", "在截止时间之前会自动再次尝试。"),
    "answer": Text(
        "If {agent} has not finished by then, the attempt counts as timed out.",
        "如果 {agent} 届时仍未完成，本次尝试将按超时处理。",
    ),
    "retry": Text(
        "Attempt {number} of {allowed} starts by itself.", "将自动开始第 {number} 次尝试（最多 {allowed} 次）。"
    ),
    "deliver": Text("The callback is delivered (try {number}).", "将投递回调（第 {number} 次）。"),
    "nothing": Text("Nothing more happens by itself.", "不会再自动发生任何事。"),
}
# Why an instance is passed over: the codes of routing.filters, and of a choice that found nobody.
REASONS: dict[str, Text] = {
    "BROKE_OFF": Text("a worker broke off when it took it up", "工作进程处理时异常中断"),
    "NO_INSTANCE": Text("no instance is registered for it", "没有为它注册的实例"),
    "NOT_PINNED": Text("the caller asked for another agent", "调用方指定了别的智能体"),
    "TAGS": Text("it lacks a tag that is asked for", "缺少所要求的标签"),
    "REQUIRES": Text("it lacks a resource that is asked for", "缺少所要求的资源"),
    "VERSION": Text("it has another version", "版本不符"),
    "SCHEMA_VERSION": Text("it does not accept this version of messages", "不接受此消息版本"),
    "NEEDS": Text("metadata that it cannot do without is missing", "缺少其必需的元数据"),
    "ZONE": Text("no worker here sends into its network zone", "此处的工作进程不向其网络区域发送"),
    "NETWORK": Text("it has no address in the caller's network", "在调用方网络中没有地址"),
    "PAYLOAD": Text("the payload does not fit its input schema", "请求内容不符合其输入结构"),
    "WEIGHT_ZERO": Text("its traffic share is 0", "流量份额为 0"),
    "LOOP_DETECTED": Text("it stands on the call path already", "已在调用路径上"),
    "BUDGET_BELOW_SLA": Text("it needs more time than is left", "所需时间多于剩余时间"),
    "BREAKER_OPEN": Text(
        "it failed too often just now and is left alone for a while", "近期失败过多，暂时停止向其发送"
    ),
    "MAINTENANCE": Text("its agent is in maintenance", "智能体正在维护"),
    "DRAINING": Text("it is draining", "正在排空"),
    "OFFLINE": Text("it is offline", "已离线"),
    "NO_ADDRESS": Text("it has no address to be called at", "没有可调用的地址"),
    "LOOKUP": Text("it may have run already, and its agent does not say whether it did", "可能已执行，智能体未答复"),
    "PULL": Text("it waits to be fetched by its agent", "等待智能体自行领取"),
    "STREAM_AWAY": Text("its agent's stream cannot be written to just now", "智能体的消息流暂时无法写入"),
    "RETRY_BUDGET": Text("retries are limited to a share of the traffic", "重试次数受流量比例限制"),
    "BUSY": Text("it works on as much as it may", "已达到并发上限"),
    "ABILITY_BUSY": Text("the ability has as much under way as it may", "该能力已达到并发上限"),
    "REGION": Text("another region is preferred and has somebody", "优先地域中有可用实例"),
}
THE_AGENT = Text("the agent", "智能体")


def reason_words(codes: str) -> Text:
    """The words of one or more reason codes, separated by commas; what is not known stays as it is."""
    split = [code.strip() for code in codes.split(",")]
    found = [REASONS.get(code.partition(":")[0], Text(code, code)) for code in split]
    return Text(", ".join(text.en for text in found), "、".join(text.zh for text in found))


def degraded(by: Mapping[str, Any]) -> Text:
    """What stood in for an answer, in words."""
    return _DEGRADED.get(by.get("kind", ""), _DEGRADED["static"]).format(ability=by.get("ability"))
