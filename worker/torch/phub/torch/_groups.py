"""torch.optim's parameter groups, of which a job's servers have most values once."""
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Tuple

import torch

from phub.errors import Error
from phub.torch import _rules

# What PyTorch calls what the servers have one of for a whole job.
_OF_THE_JOB = ("lr", "momentum", "betas", "eps")
# OneCycleLR's and CyclicLR's argument, by what they change of a rule with betas.
_CURES = {"betas": "say cycle_momentum=False to the scheduler, or make a new optimizer"}


def groups_of(params: Iterable[Any]) -> Tuple[List[Any], Dict[int, str]]:
    """torch.optim's parameters or groups, and the names of those that came with one."""
    names: Dict[int, str] = {}

    def plain(each: Any) -> Any:
        if isinstance(each, dict):
            inner = each["params"]
            return {**each, "params": [plain(one) for one in ([inner] if isinstance(inner, torch.Tensor) else inner)]}
        if isinstance(each, tuple):
            names[id(each[1])] = each[0]
            return each[1]
        return each

    return [plain(each) for each in params], names


def common_hyper(groups: List[Dict[str, Any]]) -> Tuple[float, float]:
    """lr and momentum. Raises Error where groups differ in what the servers have once."""
    for name in _OF_THE_JOB:
        values = [group.get(name) for group in groups]
        if any(value != values[0] for value in values):
            raise Error(f"{name}: groups have {values}, and the servers one for all keys of a job; make an optimizer "
                        "for each group that needs its own")
    return float(groups[0]["lr"]), float(groups[0].get("momentum", 0.0))


class Fixed:
    """What the servers have of groups from the join, and cannot be told again."""

    def __init__(self, rule: str, groups: List[Dict[str, Any]]) -> None:
        self._rule = rule
        self._values = [{name: _plain(group[name]) for name in _rules.FIXED if name in group} for group in groups]

    def check(self, groups: List[Dict[str, Any]]) -> None:
        """Raises Error where a group has another value now, or one that the rule knows nothing of."""
        for group, values in zip(groups, self._values):
            for name in _rules.FIXED:
                value = _plain(group.get(name))
                if value != values.get(name):
                    raise Error(f"{name}: changed from {values.get(name)} to {value}; the servers have it from the join, "
                                f"and it cannot be changed; {_CURES.get(name, 'make a new optimizer')}")
            _rules.check_effect(self._rule, "momentum", group.get("momentum"))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def to_state(groups: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """As torch.optim's state_dict has them: parameters are counted through."""
    state, count = [], 0
    for group in groups:
        size = len(group["params"])
        state.append({**group, "params": list(range(count, count + size))})
        count += size
    return state


def from_state(groups: List[Dict[str, Any]], state: List[Dict[str, Any]]) -> None:
    """Takes over lr, momentum and what schedulers have added. Raises Error where the groups are others."""
    if [len(each["params"]) for each in groups] != [len(each["params"]) for each in state]:
        raise Error("load_state_dict: its groups have other numbers of parameters than this optimizer's")
    for index, (group, saved) in enumerate(zip(groups, state)):
        saved = {name: value for name, value in saved.items() if _is_said(group, name, value)}
        for name in ("betas", "eps", "weight_decay"):
            if name in saved and _plain(group[name]) != _plain(saved[name]):
                raise Error(f"load_state_dict: {name} of group {index} is {saved[name]} there and {group[name]} here, and "
                            "the servers have it from the join; make the optimizer with the same")
        group.update({name: value for name, value in saved.items() if name != "params"})


def _is_said(group: Dict[str, Any], name: str, value: Any) -> bool:
    """States that were saved before rules had PyTorch's defaults have what a rule does not know, and an eps of 0."""
    return (name in group or name not in ("momentum", "betas", "eps")) and not (name == "eps" and value == 0.0)
