"""One turn of one system: accept rate, end-to-end rate with CPU and memory, and added latency at a low rate."""

import math
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks import processes
from benchmarks.load import Generator, Post, Target, closed_loop, open_loop
from benchmarks.peers import Peer
from benchmarks.systems import System

CONNECTIONS, OUTSTANDING, RATE = 32, 200, 5.0
RAMP_SECONDS, UNBOUNDED = 1.0, 10**9
OVERLOADED = {429, 503}  # a clear refusal is an answer; it does not count as accepted


@dataclass(frozen=True)
class Plan:
    """How long each phase lasts, in seconds."""

    accept: float
    complete: float
    latency: float


Figures = dict[str, float]


def turn(system: System, agent: Peer, receiver: Peer, plan: Plan) -> Figures:
    """Start the system, measure it, stop it; returns figures by name, times in milliseconds."""
    target = system.start(agent, receiver)
    try:
        drained(Generator(open_loop, target, 20.0, 2.0).result(), receiver, "warm-up")
        agent.take_records()
        return {
            **low_load(target, agent, receiver, plan.latency),
            **completing(system, target, agent, receiver, plan.complete),
            **accepting(target, receiver, plan.accept),
        }
    finally:
        system.stop()


def accepting(target: Target, receiver: Peer, seconds: float) -> Figures:
    """Post without a bound; what was accepted must be called back afterwards."""
    posts = Generator(closed_loop, target, CONNECTIONS, seconds, UNBOUNDED, receiver.count).result()
    accepted = sum(post.status == 202 for post in posts)
    lasted = max(post.answered_at for post in posts) - min(post.begun_at for post in posts)
    waits = [(post.answered_at - post.begun_at) * 1000 for post in posts]
    begun = time.monotonic()
    drained(posts, receiver, "accept phase")
    figures = {"accepted/s": accepted / lasted, "refused": len(posts) - accepted, "202 p99 ms": percentile(waits, 99)}
    return figures | {"backlog drained in s": time.monotonic() - begun}


def completing(system: System, target: Target, agent: Peer, receiver: Peer, seconds: float) -> Figures:
    """Keep a bounded number of tasks under way; count callbacks between the ramp and the end of the load."""
    load = Generator(closed_loop, target, CONNECTIONS, seconds, OUTSTANDING, receiver.count)
    harness = [agent.pid, receiver.pid, load.pid]
    time.sleep(RAMP_SECONDS)
    before, harness_before = processes.sample(system.roots()), processes.sample(harness)
    counted, since = receiver.count.value, time.monotonic()
    time.sleep(seconds - 2 * RAMP_SECONDS)
    completed, lasted = receiver.count.value - counted, time.monotonic() - since
    after, harness_after = processes.sample(system.roots()), processes.sample(harness)
    drained(load.result(), receiver, "end-to-end phase")
    cpu = {name: value * 1000 / completed for name, value in after.cpu_since(before).items()}
    return {
        "completed/s": completed / lasted,
        "CPU ms/task": sum(cpu.values()),
        "memory MiB": sum(after.memory.values()) / 2**20,
        **{f"CPU ms/task {name}": value for name, value in sorted(cpu.items())},
        "harness CPU ms/task": sum(harness_after.cpu_since(harness_before).values()) * 1000 / completed,
    }


def low_load(target: Target, agent: Peer, receiver: Peer, seconds: float) -> Figures:
    """Post five tasks a second; time from POST to the agent's receipt, and from its answer to the callback."""
    posts = Generator(open_loop, target, RATE, seconds).result()
    arrived = {marker: at for marker, at, _ in drained(posts, receiver, "low load")}
    begun = {post.marker: post.begun_at for post in posts}
    there, back = [], []
    for marker, received_at, answered_at in agent.take_records():
        there.append((received_at - begun[marker]) * 1000)
        back.append((arrived[marker] - answered_at) * 1000)
    return {
        "POST → agent p50 ms": percentile(there, 50),
        "POST → agent p99 ms": percentile(there, 99),
        "answer → callback p50 ms": percentile(back, 50),
        "answer → callback p99 ms": percentile(back, 99),
    }


def drained(posts: list[Post], receiver: Peer, phase: str, idle_seconds: float = 20.0) -> list[tuple]:
    """Wait until every accepted task was called back; returns the callbacks, raises RuntimeError on a loss."""
    accepted = {post.marker for post in posts if post.status == 202}
    if wrong := {post.status for post in posts} - {202, *OVERLOADED}:
        raise RuntimeError(f"{phase}: posts were answered {wrong} (0 = connection lost)")
    callbacks: list[tuple] = []
    last_progress, missing = time.monotonic(), accepted
    while missing:
        if fresh := receiver.take_records():
            callbacks += fresh
            missing = missing - {marker for marker, _, _ in fresh}
            last_progress = time.monotonic()
        if time.monotonic() - last_progress > idle_seconds:
            raise RuntimeError(f"{phase}: {len(missing)} of {len(accepted)} accepted tasks were not called back")
        time.sleep(0.05)
    if bad := {state for _, _, state in callbacks} - {"SUCCEEDED"}:
        raise RuntimeError(f"{phase}: tasks ended as {bad}")
    return callbacks


def percentile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that at least `share` percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)]


def medians(turns: list[Figures]) -> Figures:
    """Return the median of every figure over the turns."""
    names = dict.fromkeys(name for figures in turns for name in figures)
    return {name: statistics.median(figures.get(name, 0.0) for figures in turns) for name in names}
