"""One turn of one system: accept rate, end-to-end rate with CPU and memory, and added latency at a low rate."""

import math
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks import processes
from benchmarks.load import ACCEPTED, Generator, Post, Target, closed_loop, open_loop
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
        drained(Generator(open_loop, target, 20.0, 2.0).result(), receiver)
        agent.take_records()
        phases = [
            low_load(target, agent, receiver, plan.latency),
            completing(system, target, agent, receiver, plan.complete),
            accepting(target, receiver, plan.accept),
        ]
    finally:
        system.stop()
    lost = sum(figures["lost"] for figures in phases)
    return {name: value for figures in phases for name, value in figures.items()} | {"lost": lost}


def accepting(target: Target, receiver: Peer, seconds: float) -> Figures:
    """Post without a bound; what was accepted must be called back afterwards."""
    posts = Generator(closed_loop, target, CONNECTIONS, seconds, UNBOUNDED, receiver.count).result()
    accepted = sum(post.status == ACCEPTED for post in posts)
    lasted = max(post.answered_at for post in posts) - min(post.begun_at for post in posts)
    waits = [(post.answered_at - post.begun_at) * 1000 for post in posts]
    begun = time.monotonic()
    lost = count_lost(posts, drained(posts, receiver))
    figures = {"accepted/s": accepted / lasted, "refused": len(posts) - accepted, "202 p99 ms": percentile(waits, 99)}
    return figures | {"backlog drained in s": time.monotonic() - begun, "lost": lost}


def completing(system: System, target: Target, agent: Peer, receiver: Peer, seconds: float) -> Figures:
    """Keep a bounded number of tasks under way; count callbacks between the ramp and the end of the load."""
    load = Generator(closed_loop, target, CONNECTIONS, seconds, OUTSTANDING, receiver.count)
    harness = [agent.pid, receiver.pid, load.pid]
    time.sleep(RAMP_SECONDS)
    before, harness_before = processes.cpu_seconds(system.roots()), processes.cpu_seconds(harness)
    counted, since = receiver.count.value, time.monotonic()
    time.sleep(seconds - 2 * RAMP_SECONDS)
    completed, lasted = receiver.count.value - counted, time.monotonic() - since
    spent = processes.between(before, processes.cpu_seconds(system.roots()))
    spent["harness"] = sum(processes.between(harness_before, processes.cpu_seconds(harness)).values())
    posts = load.result()
    lost = count_lost(posts, drained(posts, receiver))
    cpu = {name: value * 1000 / completed for name, value in sorted(spent.items())}
    by_program = {f"CPU ms/task {name}": value for name, value in cpu.items() if name != "harness"}
    return {
        "lost": lost,
        "completed/s": completed / lasted,
        "CPU ms/task": sum(by_program.values()),
        **by_program,
        "harness CPU ms/task": cpu["harness"],
        "memory MiB": processes.memory_bytes(system.roots()) / 2**20,
    }


def low_load(target: Target, agent: Peer, receiver: Peer, seconds: float) -> Figures:
    """Post five tasks a second; time from POST to the agent's receipt, and from its answer to the callback."""
    posts = Generator(open_loop, target, RATE, seconds).result()
    callbacks = drained(posts, receiver)
    arrived = {marker: at for marker, at, _ in callbacks}
    begun = {post.marker: post.begun_at for post in posts}
    there, back = [], []
    for marker, received_at, answered_at in agent.take_records():
        there.append((received_at - begun[marker]) * 1000)
        if marker in arrived:
            back.append((arrived[marker] - answered_at) * 1000)
    return {
        "lost": count_lost(posts, callbacks),
        "POST → agent p50 ms": percentile(there, 50),
        "POST → agent p99 ms": percentile(there, 99),
        "answer → callback p50 ms": percentile(back, 50),
        "answer → callback p99 ms": percentile(back, 99),
    }


def drained(posts: list[Post], receiver: Peer, idle_seconds: float = 20.0) -> list[tuple]:
    """Return the callbacks, once every accepted task has one or none came for `idle_seconds`.

    Raises RuntimeError when a POST was answered with neither 202 nor a refusal.
    """
    if wrong := {post.status for post in posts} - {ACCEPTED, *OVERLOADED}:
        raise RuntimeError(f"posts were answered {wrong} (0 = connection lost)")
    callbacks: list[tuple] = []
    missing, last_progress = {post.marker for post in posts if post.status == ACCEPTED}, time.monotonic()
    while missing and time.monotonic() - last_progress < idle_seconds:
        if fresh := receiver.take_records():
            callbacks += fresh
            missing -= {marker for marker, _, _ in fresh}
            last_progress = time.monotonic()
        time.sleep(0.05)
    return callbacks


def count_lost(posts: list[Post], callbacks: list[tuple]) -> int:
    """Return how many accepted tasks were not called back as succeeded."""
    succeeded = {marker for marker, _, state in callbacks if state == "SUCCEEDED"}
    return sum(post.status == ACCEPTED and post.marker not in succeeded for post in posts)


def percentile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that at least `share` percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)]


def medians(turns: list[Figures]) -> Figures:
    """Return the median of every figure over the turns."""
    names = dict.fromkeys(name for figures in turns for name in figures)
    return {name: statistics.median(figures.get(name, 0.0) for figures in turns) for name in names}
