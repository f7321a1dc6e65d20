"""What can be asked for, as the catalog wants to hear it: every ability and who stands behind it, as of now."""

from registry.catalog import Offer, Offers
from registry.selectors import namespace_version
from registry.states import ROUTABLE
from routing import snapshot
from routing.snapshot import Ability


def offers(namespace: str) -> Offers:
    """The namespace's offers by name; one query unless something has changed."""
    known = snapshot.at_least(namespace, namespace_version(namespace))
    return Offers(namespace, known.version, tuple(_offer(known.abilities[name]) for name in sorted(known.abilities)))


def _offer(ability: Ability) -> Offer:
    behind = dict.fromkeys((one.agent.agent_id, one.capability.name) for one in ability.candidates)
    return Offer(
        ability.name, ability.explicit, ability.route.strategy, tuple(behind), any(map(_takes_work, ability.candidates))
    )


def _takes_work(candidate: snapshot.CandidateView) -> bool:
    return not candidate.agent.maintenance and any(
        one.state in ROUTABLE and not one.draining for one in candidate.agent.instances
    )
