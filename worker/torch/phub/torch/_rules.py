"""What servers are told of an optimizer's rule, checked: what would have no effect, or another one than in torch.optim, is
an error."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from phub.errors import Error

WITH_MOMENTUM = ("momentum", "nesterov", "lars")
WITH_BETAS = ("adam", "adamw", "lamb")
WITH_EPS = WITH_BETAS + ("adagrad",)
BY_TRUST = ("lars", "lamb")
RULES = ("sgd", "momentum", "nesterov", "adam", "adamw", "adagrad", "lars", "lamb")
# torch.optim's; of lamb, which it has not, its authors'.
_EPS = {"adam": 1e-8, "adamw": 1e-8, "adagrad": 1e-10, "lamb": 1e-6}
_DECAY = {"adamw": 0.01}
# torch.optim's arguments that servers have not: what they are there by default, which is what the servers do.
_OF_TORCH: Dict[str, Any] = {"amsgrad": False, "maximize": False, "dampening": 0, "lr_decay": 0, "initial_accumulator_value": 0,
                             "capturable": False, "differentiable": False}
# How torch.optim computes a step, not which.
_WITHOUT_EFFECT = ("foreach", "fused")
# What servers keep of a parameter, as their snapshots and as torch.optim call it.
ARRAYS: Dict[str, Dict[str, str]] = {
    "sgd": {}, "momentum": {"state": "momentum_buffer"}, "nesterov": {"state": "momentum_buffer"},
    "lars": {"state": "momentum_buffer"}, "adagrad": {"state": "sum"},
    **{rule: {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"} for rule in WITH_BETAS}}
# A group's values that the servers have from the join.
FIXED = ("betas", "eps", "weight_decay", "nesterov", "decoupled_weight_decay", *_OF_TORCH)


def defaults_of(rule: str, given: Dict[str, Any]) -> Dict[str, Any]:
    """The values of a group that says none: lr, weight_decay, and of momentum, betas and eps what the rule has. `given` has
    what is None where it was not given. Schedulers look at which of them there are. Raises Error."""
    if rule not in RULES:
        raise Error(f"rule: \"{rule}\" makes no step of gradients; choose one of {', '.join(RULES)}, or phub.Client for "
                    "sums and means")
    decay = given["weight_decay"]
    defaults = {"lr": given["lr"], "weight_decay": _DECAY.get(rule, 0.0) if decay is None else decay}
    if rule in WITH_MOMENTUM:
        defaults["momentum"] = 0.0 if given["momentum"] is None else given["momentum"]
    if rule in WITH_BETAS:
        betas = given["betas"] or (0.9, 0.999)
        defaults["betas"] = (betas[0], betas[1])
    if rule in WITH_EPS:
        defaults["eps"] = _EPS[rule] if given["eps"] is None else given["eps"]
    for name in ("momentum", "betas", "eps"):
        check_effect(rule, name, given[name])
    return defaults


def check_effect(rule: str, name: str, value: Any) -> None:
    """Raises Error where the servers would not do what the value says. None: it was not given."""
    if name == "momentum" and value and rule not in WITH_MOMENTUM:
        raise Error(f"momentum: {value} has no effect with rule \"{rule}\"; "
                    + ("set betas" if rule in WITH_BETAS else f"choose {', '.join(WITH_MOMENTUM)}, or leave it out"))
    if name == "momentum" and value == 0 and rule == "nesterov":
        raise Error("momentum: rule \"nesterov\" needs one above 0")
    if name == "betas" and value is not None:
        if rule not in WITH_BETAS:
            raise Error(f"betas: {value} have no effect with rule \"{rule}\"; choose {', '.join(WITH_BETAS)}, or leave them "
                        "out")
        if 0.0 in value:
            raise Error("betas: 0 cannot be told to the servers; choose rule momentum, or a small number")
    if name == "eps" and value is not None:
        if rule not in WITH_EPS:
            raise Error(f"eps: {value} has no effect with rule \"{rule}\"; "
                        + ("set trust_epsilon" if rule == "lars" else f"choose {', '.join(WITH_EPS)}, or leave it out"))
        if value == 0:
            raise Error("eps: 0 cannot be told to the servers; choose a small number, as 1e-30")


def take_arguments_of_torch(rule: str, options: Dict[str, Any]) -> None:
    """Takes torch.optim's arguments out of `options`. Raises Error for what would change the step."""
    for name in [name for name in options if name in _WITHOUT_EFFECT]:
        del options[name]
    for name, value in [(name, options[name]) for name in options if is_argument_of_torch(name)]:
        check_argument_of_torch(rule, name, value)
        del options[name]


def is_argument_of_torch(name: str) -> bool:
    return name in _OF_TORCH or name in ("nesterov", "decoupled_weight_decay")


def check_argument_of_torch(rule: str, name: str, value: Any) -> None:
    """Raises Error for one that would change the step."""
    if name == "nesterov" and bool(value) != (rule == "nesterov"):
        raise Error(f"nesterov: {value} contradicts rule \"{rule}\"; choose rule \"{'nesterov' if value else 'momentum'}\"")
    if name == "decoupled_weight_decay" and bool(value) != (rule in ("adamw", "lamb")):
        raise Error(f"decoupled_weight_decay: {value} contradicts rule \"{rule}\"; choose rule "
                    f"\"{'adamw' if value else 'adam'}\"")
    if name in _OF_TORCH and value != _OF_TORCH[name]:
        raise Error(f"{name}: the servers' rule \"{rule}\" has none, so {value!r} would be left out; leave it out, or train "
                    "with torch.optim and phub.torch.ddp_hook")


def check_groups(rule: str, groups: List[Dict[str, Any]]) -> None:
    """What groups say themselves. Raises Error."""
    for group in groups:
        for name in ("momentum", "betas", "eps"):
            check_effect(rule, name, group.get(name))
        for name in group:
            if is_argument_of_torch(name):
                check_argument_of_torch(rule, name, group[name])


def fields_of(rule: str, group: Dict[str, Any]) -> Dict[str, Any]:
    """The Options of a job with this rule."""
    fields: Dict[str, Any] = dict(rule=rule, learning_rate=float(group["lr"]), momentum=float(group.get("momentum", 0.0)))
    if rule in WITH_EPS:
        fields["epsilon"] = group["eps"]
    if rule in WITH_BETAS:
        fields["beta1"], fields["beta2"] = _betas(group)
    return fields


def torch_arguments(rule: str) -> Dict[str, Any]:
    """What a group of torch.optim's optimizer has besides, where the servers do the same."""
    common: Dict[str, Any] = dict(foreach=None, maximize=False, differentiable=False)
    if rule in WITH_BETAS:
        return dict(common, amsgrad=False, capturable=False, fused=None)
    if rule == "adagrad":
        return dict(common, lr_decay=0, initial_accumulator_value=0)
    return dict(common, momentum=0, dampening=0, nesterov=rule == "nesterov")


def _betas(group: Dict[str, Any]) -> Tuple[float, float]:
    first, second = group["betas"]
    return float(first), float(second)
