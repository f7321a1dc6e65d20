"""How many slots an ability has free just now, as far as this process knows: so many more tasks go at once."""

from routing import snapshot
from routing.layout import layout_of
from routing.loads import Loads


def free(ability: tuple[str, str], loads: Loads) -> int:
    """Free slots of (namespace, ability); 0 where nothing is known of the namespace yet. Reads no database."""
    namespace, name = ability
    if snapshot.known_version(namespace) is None:
        return 0
    found = snapshot.current(namespace).abilities.get(name)
    if found is None:
        return 0
    layout = layout_of(found, namespace)
    slots = sum(
        max(0, one.most - (running if one.is_shared else loads.own(one.key)))
        for one, running, unfit in zip(layout.seen, loads.counts(layout.keys), layout.unfit, strict=True)
        if unfit is None
    )
    most = found.route.limits.get("maxInflight")
    return slots if most is None else max(0, min(slots, most - loads.inflight(ability)))
