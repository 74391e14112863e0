"""GradScaler with the optimizer on the servers: its inf check is a vote of all workers."""
from __future__ import annotations

import warnings
from typing import Any

import torch

from phub.client import Client
from phub.errors import Error

# A GradScaler hands itself to step where that has the argument grad_scaler, which PyTorch 2 warns of.
warnings.filterwarnings("ignore", message=".*GradScaler is going to stop passing itself.*")


class Scaling:
    """Of a job that votes."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._overflows = False
        self._scaler: Any = None  # of the last step; the residual of an encoding has its scale
        self._is_encoded = client.options.get("encoding", "dense") != "dense"

    def begin_round(self, optimizer: torch.optim.Optimizer) -> None:
        """Before the first push of a step. A first step's scale is known by its vote."""
        if self._is_encoded and self._scaler is not None:
            self._client.set_loss_scale(_scale(self._scaler, optimizer))

    def look_at(self, pushed: torch.Tensor) -> None:
        """A gradient, as it travels."""
        self._overflows = self._overflows or not bool(torch.isfinite(pushed).all())

    def vote(self, scaler: Any, optimizer: torch.optim.Optimizer) -> None:
        """When all gradients of the step are pushed. The servers divide by the scale, if nobody has."""
        self._client.vote(self._overflows, _scale(scaler, optimizer))
        self._scaler = scaler
        self._overflows = False

    def tell(self, scaler: Any, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        """Whether the step was left out, so that update() does the same to the scale at each worker. REQUIRES: key 0 was
        waited for."""
        skipped = self._client.was_skipped(0)
        found = torch.full((1,), 1.0 if skipped else 0.0, device=device)
        scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = {device: found}


def check(scaler: Any, votes: bool) -> None:
    """Whether step() has what the job was made for. Raises Error."""
    if votes and scaler is None:
        raise Error("loss_scaling: the job takes each step's loss scale from a GradScaler, and step() has none: call "
                    "scaler.step(optimizer), of a scaler that is enabled, or leave it out")
    if scaler is not None and not votes:
        raise Error("GradScaler: the servers are to know of it when the job is made: say loss_scaling=\"voted\", or use autocast with "
                    "bfloat16, which needs none")


def check_stage(scaler: Any, optimizer: torch.optim.Optimizer, pushes_in_step: bool) -> None:
    """Raises Error where gradients were divided by the scale after they had been pushed."""
    if scaler is not None and not pushes_in_step and _is_unscaled(scaler, optimizer):
        raise Error("GradScaler: unscale_ came after backward had pushed the gradients; say push=\"step\", by which step() takes "
                    "what .grad has then, or leave unscale_ out and say clip_norm=... to clip the mean")


def _scale(scaler: Any, optimizer: torch.optim.Optimizer) -> float:
    return 1.0 if _is_unscaled(scaler, optimizer) else float(scaler.get_scale())


def _is_unscaled(scaler: Any, optimizer: torch.optim.Optimizer) -> bool:
    stage = scaler._per_optimizer_states.get(id(optimizer), {}).get("stage")  # nothing before its first step
    return getattr(stage, "name", "") == "UNSCALED"
