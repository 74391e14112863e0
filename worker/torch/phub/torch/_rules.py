"""What servers are told of an optimizer's rule, checked: what would have no effect is an error."""
from __future__ import annotations

from typing import Any, Dict, Tuple

from phub.errors import Error

WITH_MOMENTUM = ("momentum", "nesterov", "lars")
WITH_BETAS = ("adam", "adamw", "lamb")
WITH_EPS = WITH_BETAS + ("adagrad",)
BY_TRUST = ("lars", "lamb")
RULES = ("sgd", "momentum", "nesterov", "adam", "adamw", "adagrad", "lars", "lamb")
BETAS = (0.9, 0.999)


def fields_of(rule: str, lr: float, momentum: float, betas: Tuple[float, float], eps: float) -> Dict[str, Any]:
    """The Options of a job with this rule. Raises Error."""
    if rule not in RULES:
        raise Error(f"rule: \"{rule}\" makes no step of gradients; choose one of {', '.join(RULES)}, or phub.Client for "
                    "sums and means")
    if momentum != 0.0 and rule not in WITH_MOMENTUM:
        raise Error(f"momentum: {momentum} has no effect with rule \"{rule}\"; "
                    + ("set betas" if rule in WITH_BETAS else f"choose {', '.join(WITH_MOMENTUM)}, or leave it out"))
    if betas != BETAS and rule not in WITH_BETAS:
        raise Error(f"betas: {betas} have no effect with rule \"{rule}\"; choose {', '.join(WITH_BETAS)}, or leave them out")
    if eps != 0.0 and rule not in WITH_EPS:
        raise Error(f"eps: {eps} has no effect with rule \"{rule}\"; "
                    + ("set trust_epsilon" if rule == "lars" else f"choose {', '.join(WITH_EPS)}, or leave it out"))
    if 0.0 in betas:
        raise Error("betas: 0 cannot be told to the servers; choose rule momentum, or a small number")
    fields: Dict[str, Any] = dict(rule=rule, learning_rate=lr, momentum=momentum, epsilon=eps)
    if rule in WITH_BETAS:
        fields.update(beta1=betas[0], beta2=betas[1])
    return fields
