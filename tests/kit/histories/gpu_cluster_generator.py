"""Generates random clusters of pools, nodes and pods from a seed."""

from dataclasses import replace
from random import Random

from tests.kit.histories.gpu_cluster import (
    HOSTNAME_LABEL,
    MODE_LABEL,
    NODE_POOL_LABEL,
    PLACEMENT_LABEL,
    POOL_LABEL,
    Applicant,
    Application,
    GpuNode,
    GpuPool,
    Holder,
    Requirement,
)

_SCHEDULES = {
    "Professional": ("share", "share", "cgpu", "cgpu", "cgpu", "mps", "core_mem", "default"),
    "Basic": ("share", "cgpu", "cgpu", "default"),
    "OpenSource": ("share", "share", "share", "default"),
}
_CARD_GIB = (8, 15, 16, 31)
MIB_PER_GIB = 1024


class GpuClusterGenerator:
    """Generates random clusters, equal for equal seeds. Half of them mix the editions."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self._edition = self._random.choice(("", "Professional"))
        # One plugin setting for the whole cluster; amounts in MiB are seldom round.
        self._scale = 1 if self._chance(0.8) else MIB_PER_GIB
        # Who selects a placement can only be judged where it is known of every node.
        self._has_placements = self._edition == "Professional" and self._chance(0.5)
        # Pools of one mode are rivals for every pod; of mixed ones, few pods have a choice.
        self._schedule = self._random.choice(("", "", "share", "cgpu"))

    def generate_pools(self) -> tuple[GpuPool, ...]:
        """Generate up to five pools, most of them similar enough to compete."""
        count = self._random.choice((1, 2, 3, 3, 4, 4, 5))
        pools: list[GpuPool] = []
        rolled = self._random.getstate()
        for index in range(count):
            is_twin = bool(pools) and self._chance(0.15)
            now = self._random.getstate()
            # The same rolls make the same pool again, down to the pods on its nodes, but for names.
            rolled = rolled if is_twin else now
            self._random.setstate(rolled)
            pools.append(self._generate_pool(index))
            if is_twin:
                self._random.setstate(now)
        return tuple(pools)

    def generate_application(self, pools: tuple[GpuPool, ...]) -> Application:
        """Generate a pod of any kind."""
        return Application(
            pod=self._generate_pod(pools),
            pools=pools,
            namespace=self._generate_namespace(pools),
            denies=self._chance(0.2),
        )

    def generate_booked(self, pools: tuple[GpuPool, ...]) -> dict[str, int]:
        """Generate the webhook's recent assignments to each pool."""
        if self._chance(0.6):
            return {}
        return {pool.name: self._scale * self._random.randrange(40) for pool in pools}

    def generate_plain_pod(self) -> Applicant:
        """Generate a pod that requests GPU memory, some with a required isolation."""
        rolled = self._random.random()
        return Applicant(
            asks=(self._generate_ask(),),
            isolation="required" if rolled < 0.15 else "none" if rolled < 0.25 else "",
            environment={"CGPU_DISABLE": "true"} if 0.25 < rolled < 0.5 else {},
        )

    def _generate_pool(self, index: int) -> GpuPool:
        rolled = self._random
        name = f"w-{index}"
        edition = self._edition or rolled.choice(("Professional",) * 3 + ("Basic", "OpenSource"))
        nodes = tuple(
            self._generate_node(f"{name}-n{each}", edition)
            for each in range(rolled.choice((0, 1, 1, 2, 2, 3)))
        )
        placements = ("binpack", "spread") if self._has_placements else ("", "binpack", "spread")
        schedules = _SCHEDULES[edition]
        return GpuPool(
            name=name,
            nodes=nodes,
            edition=edition,
            schedule=self._schedule if self._schedule in schedules else rolled.choice(schedules),
            placement=rolled.choice(placements) if edition == "Professional" else "",
            priority=rolled.choice((100, 100, 100, 50, 200)),
            reconcile="Observe" if self._chance(0.06) else "Enforce",
            is_deleting=self._chance(0.04),
            selection="OnRequest" if self._chance(0.12) else "Automatic",
            binding="Mode" if self._chance(0.1) else "Pool",
            namespaces={"team": "vision"} if self._chance(0.12) else {},
            pods={"app": "train"} if self._chance(0.12) else {},
            is_tainted=self._chance(0.2),
            waiting=tuple(self._generate_ask() for _ in range(rolled.choice((0, 0, 0, 1, 4)))),
        )

    def _generate_node(self, name: str, edition: str) -> GpuNode:
        rolled = self._random
        cards = rolled.choice((1, 1, 2, 4, 8))
        card_memory = rolled.choice(_CARD_GIB) * self._scale
        return GpuNode(
            name=name,
            cards=cards,
            card_memory=card_memory,
            holders=tuple(self._generate_holders(name, cards, card_memory, edition)),
            is_ready=not self._chance(0.05),
            is_cordoned=self._chance(0.08),
            has_plugin=not self._chance(0.05),
        )

    def _generate_holders(
        self, node: str, cards: int, card_memory: int, edition: str
    ) -> list[Holder]:
        """Generate pods that fill a part of the cards, without over-commitment."""
        rolled = self._random
        free = [card_memory] * cards
        fullness = rolled.random()
        holders: list[Holder] = []
        while sum(free) > (1 - fullness) * cards * card_memory and len(holders) < 16:
            over = 2 if cards > 1 and edition == "Professional" and self._chance(0.1) else 1
            chosen = rolled.sample(range(cards), over)
            most = min(free[card] for card in chosen)
            units = min(max(self._generate_ask(), card_memory // 8), most)
            if units:
                held = dict.fromkeys(chosen, units)
                name = f"{node}-held-{len(holders)}"
                holders.append(Holder(name, held, is_terminating=self._chance(0.05)))
                for card in chosen:
                    free[card] -= units
            elif not any(free):
                break
        return holders

    def _generate_ask(self) -> int:
        gib = self._random.choice((1, 2, 3, 4, 4, 6, 8, 8, 12, 15, 16, 40))
        return gib if self._scale == 1 else gib * self._scale - self._random.randrange(300)

    def _generate_namespace(self, pools: tuple[GpuPool, ...]) -> dict[str, str]:
        labels = {"team": self._random.choice(("vision", "speech"))}
        if self._chance(0.06):
            labels["gpushare.io/default-pool"] = self._choose_pool_name(pools)
        if self._chance(0.03):
            labels["gpushare.io/inject"] = "disabled"
        if self._chance(0.1):
            labels["gpushare.io/on-no-pool"] = self._random.choice(("allow", "deny"))
        return labels

    def _generate_pod(self, pools: tuple[GpuPool, ...]) -> Applicant:
        """Generate a pod, mostly with a request for GPU memory; each other kind is one in 48."""
        app = self._random.choice(("train", "infer"))
        pod = replace(self.generate_plain_pod(), labels={"app": app})
        match self._random.randrange(48):
            case 0:
                return replace(pod, is_daemon=True)
            case 1:
                return replace(pod, selects={HOSTNAME_LABEL: "elsewhere"})
            case 2:
                return replace(pod, scheduler="volcano")
            case 3:
                return replace(pod, is_queued=True)
            case 4:
                return replace(pod, opts_out=True)
            case 5:
                return replace(pod, asks=(), environment={})
            case 6:
                return replace(pod, asks=(), environment={"NVIDIA_VISIBLE_DEVICES": "all"})
            case 7:
                wanted = self._choose_pool_name(pools)
                return replace(pod, asks=(), environment={}, whole_cards=1, wants_pool=wanted)
            case 8:
                return replace(pod, asks=(*pod.asks, self._generate_ask()))
            case 9:
                return replace(pod, core=self._random.choice((10, 30, 100)))
            case 10 | 11:
                return replace(pod, selects={POOL_LABEL: self._choose_pool_name(pools)})
            case 12:
                elsewhere: Requirement = (POOL_LABEL, "In", ("two",))
                return replace(pod, selects={POOL_LABEL: "one"}, terms=((elsewhere,),))
            case 13:
                mode = self._random.choice(("share", "cgpu", "core_mem", "no-such-mode"))
                return replace(pod, terms=(((MODE_LABEL, "In", (mode,)),),))
            case 14 | 15:
                return replace(pod, terms=self._generate_avoidance(pools))
            case 16:
                node_pool = f"np-{self._choose_pool_name(pools)}"
                return replace(pod, selects={NODE_POOL_LABEL: node_pool})
            case 17 if self._has_placements:
                return replace(pod, selects={PLACEMENT_LABEL: "spread"})
            case 18 | 19 | 20:
                return replace(pod, wants_pool=self._choose_pool_name(pools))
        return pod

    def _generate_avoidance(
        self, pools: tuple[GpuPool, ...]
    ) -> tuple[tuple[Requirement, ...], ...]:
        """Generate exclusions of nodes, in one term or in two."""
        not_there: Requirement = (POOL_LABEL, "NotIn", (self._choose_pool_name(pools),))
        not_so: Requirement = (MODE_LABEL, "NotIn", (self._random.choice(("share", "cgpu")),))
        return self._random.choice(
            (
                ((not_there,),),
                ((not_so,),),
                ((not_there, not_so),),
                ((not_there,), (not_so,)),
                (((MODE_LABEL, "DoesNotExist", ()),),),
            )
        )

    def _choose_pool_name(self, pools: tuple[GpuPool, ...]) -> str:
        if self._chance(0.1):
            return "no-such-pool"
        return self._random.choice(pools).name

    def _chance(self, share: float) -> bool:
        return self._random.random() < share
