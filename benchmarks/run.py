"""`python -m benchmarks.run`: both systems in turn against the same simulated agents, and the table of medians."""

import argparse
import logging
import os
import shutil
import tempfile
from pathlib import Path

from benchmarks import report
from benchmarks.measure import Figures, Plan, turn
from benchmarks.peers import Agent, Peer, Receiver
from benchmarks.systems import GivenPlatform, PlainCelery, Platform, System
from reach_platform.embedded.place import remove_stale_homes

ARTIFACTS = Path(__file__).parent.parent / "artifacts"
PLAIN_VARIANTS: list[tuple[str, dict[str, str]]] = [
    ("plain celery", {}),
    ("with DB_REUSE_MAX", {"CELERY_DB_REUSE_MAX": "1000000"}),
    ("with Django's pool", {"DB_POOL": "100"}),
]
FULL, QUICK = Plan(accept=10.0, complete=20.0, latency=30.0), Plan(accept=2.0, complete=6.0, latency=5.0)


def main() -> None:
    """Run the turns and print, then save, the comparison."""
    options = parse()
    logging.disable(logging.INFO)
    data_dir = Path(tempfile.mkdtemp(prefix="reach-bench-", dir=options.data_dir))
    agent, receiver = Peer.start(Agent, options.agent_ms / 1000), Peer.start(Receiver)
    plan = QUICK if options.quick else FULL
    rounds = 1 if options.quick else options.rounds
    print(f"data and logs: {data_dir} (kept only if the run fails)", flush=True)
    try:
        turns = alternate(chosen(options, data_dir), agent, receiver, plan, rounds)
    finally:
        agent.stop()
        receiver.stop()
    remove(data_dir)
    print(report.as_text(report.table(turns)))
    report.save(ARTIFACTS, turns, plan)
    print(f"saved: {ARTIFACTS.name}/bench.json, {ARTIFACTS.name}/bench.md")


def alternate(systems: list[System], agent: Peer, receiver: Peer, plan: Plan, rounds: int) -> dict[str, list[Figures]]:
    """Return each system's figures of every round; the systems take turns within a round."""
    turns: dict[str, list[Figures]] = {system.name: [] for system in systems}
    for number in range(1, rounds + 1):
        for system in systems:
            print(f"round {number} of {rounds}: {system.name} …", flush=True)
            figures = turn(system, agent, receiver, plan)
            turns[system.name].append(figures)
            print("  " + ", ".join(f"{name} {value:.1f}" for name, value in figures.items()), flush=True)
    return turns


def chosen(options: argparse.Namespace, data_dir: Path) -> list[System]:
    """Return the systems that were asked for, each with a data directory of its own."""
    systems: list[System] = []
    if options.only != "plain":
        given = os.environ.get("BASE_URL")
        demo = Path(os.environ["DEMO_JSON"]) if given else Path()
        systems.append(GivenPlatform(given, demo) if given else Platform(data_dir / "platform"))
    if options.only != "platform":
        variants = PLAIN_VARIANTS if options.variants else PLAIN_VARIANTS[:1]
        for name, environment in variants:
            systems.append(PlainCelery(name, data_dir / f"plain{len(systems)}", environment))
    return systems


def remove(data_dir: Path) -> None:
    """Delete the data directories, and the homes that servers started by root have elsewhere."""
    shutil.rmtree(data_dir, ignore_errors=True)
    remove_stale_homes()


def parse() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short turn each, about a minute in all")
    parser.add_argument("--only", choices=["plain", "platform"], help="measure one system alone")
    parser.add_argument(
        "--variants", action="store_true", help="also plain Celery with two other ways of keeping connections"
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each system (default 3)")
    parser.add_argument("--agent-ms", type=float, default=20.0, help="the simulated agent's own time (default 20)")
    parser.add_argument(
        "--data-dir", type=Path, help="where the systems keep their data (default: the temporary directory)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
