"""The optimizer on PHub's servers."""
from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

import torch

from phub import _environment
from phub.client import Client, Key
from phub.errors import Error
from phub.options import Options
from phub.torch import _groups, _hooks, _rules, _scaling, _tensors


class Optimizer(torch.optim.Optimizer):
    """Takes the place of torch.optim's: the servers have the optimizer's state and make the step.

    A parameter's gradient is pushed by backward as soon as it is there; step() waits for the new parameters. Making one
    joins the job, waits for all of its workers, and gives each of them worker 0's parameters.

    params: named_parameters(), parameters(), or groups as torch.optim's. Groups may differ in weight_decay; the rest is
      the job's, and so the same in all of them. Parameters that need no gradient are left out.
    rule: "sgd", "momentum", "nesterov", "adam", "adamw", "adagrad", by PyTorch's formulas; "lars", "lamb", under which
      parameters of one dimension (biases, norms) have a trust of 1.
    lr: may be changed between a step and the next backward, by a scheduler too; worker 0's counts.
    model: with it step() does not wait: each module's forward waits for its own parameters alone. Who reads parameters
      elsewhere calls synchronize() first.
    accumulate: backward passes of a step; gradients are pushed by the last of them.
    absent: what to do in step() about a parameter without a gradient. "error", or "zeros": push zeros.
    options: Options' fields; what is not given comes from the environment.

    To clip gradients is the servers' too: clip_norm=... in the options. With votes=True a GradScaler's step(optimizer)
    works: the servers divide by its scale, and leave a step out for all where one worker's gradients are not finite.
    Raises phub.Error.
    """

    def __init__(self, params: Iterable[Any], rule: str, lr: float, *, momentum: float = 0.0,
                 betas: Tuple[float, float] = _rules.BETAS, eps: float = 0.0, weight_decay: float = 0.0,
                 model: Optional[torch.nn.Module] = None, accumulate: int = 1, absent: str = "error",
                 **options: Any) -> None:
        if absent not in ("error", "zeros"):
            raise Error(f"absent: \"{absent}\" is neither \"error\" nor \"zeros\"")
        if accumulate < 1:
            raise Error(f"accumulate: {accumulate} is below 1")
        betas = (betas[0], betas[1])
        fields = _rules.fields_of(rule, lr, momentum, betas, eps)
        groups, names = _groups.groups_of(params)
        self._client: Optional[Client] = None
        super().__init__(groups, dict(lr=lr, momentum=momentum, betas=betas, eps=eps, weight_decay=weight_decay))
        self._absent, self._accumulate = absent, accumulate
        decays = [(parameter, group["weight_decay"]) for group in self.param_groups for parameter in group["params"]]
        self._parameters = [parameter for parameter, _ in decays if parameter.requires_grad]
        if not self._parameters:
            raise Error("params: none of them needs a gradient")
        self._names = [names.get(id(parameter), f"parameter{i}") for i, parameter in enumerate(self._parameters)]
        self._decays = [group["weight_decay"] for group in self.param_groups]
        self._sent = self._hyper()
        self._backwards = [0] * len(self._parameters)  # since the last step
        self._is_pushed = [False] * len(self._parameters)
        self._is_due = [False] * len(self._parameters)  # its new value has not been copied yet
        self._missed: Set[int] = set()  # what was still due when this round's first gradient came
        self._samples = self._sent_samples = 1.0
        job = _environment.options("optimizer", {**options, **fields})
        self._join(Options(**job), [decay for parameter, decay in decays if parameter.requires_grad])
        self._installed = [_hooks.after_accumulation(parameter, self._hook_of(index))
                       for index, parameter in enumerate(self._parameters)]
        self._waits_in_step = model is None
        if model is not None:
            indexes = {id(parameter): index for index, parameter in enumerate(self._parameters)}
            self._installed += _hooks.before_forward(model, indexes, self._receive)

    _step_supports_amp_scaling = True  # a GradScaler asks, and hands itself to step

    def step(self, closure: Optional[Callable[[], Any]] = None, *, grad_scaler: Any = None) -> Any:
        """Ends the round: what has no gradient is an error or zeros, and the new parameters are waited for."""
        _scaling.check(grad_scaler, self._scaling is not None)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._push_absent()
        if self._hyper() != self._sent:
            raise Error("lr, momentum: changed between backward, which pushed the gradients with the old ones, and step; "
                        "change them after step and before backward")
        self._backwards = [0] * len(self._parameters)
        self._is_pushed = [False] * len(self._parameters)
        self._is_due = [True] * len(self._parameters)
        self._missed = set()
        self._steps += 1
        if self._scaling is not None:
            self._scaling.vote(grad_scaler)
        if self._waits_in_step:
            self.synchronize()
        if self._scaling is not None:
            self._receive(0)  # the scaler is to know at once
            self._scaling.tell(grad_scaler, self, self._parameters[0].device)
        return loss

    def synchronize(self) -> None:
        """Waits for all parameters of the last step."""
        if not any(self._is_due):
            return
        self._joined().wait_all()
        for index in range(len(self._parameters)):
            self._copy(index)

    def set_samples(self, samples: float) -> None:
        """With push_weight="samples": images or tokens in each of this worker's gradients from the next backward on."""
        if self._joined().options.push_weight != "samples":
            raise Error("set_samples: the job's rounds do not weigh by samples; say push_weight=\"samples\", with a quorum")
        if any(self._is_pushed):
            raise Error("set_samples: backward has pushed gradients already; call it after step and before backward")
        self._samples = samples

    def close(self) -> None:
        """Waits for the last step and leaves the job. What ends with the process need not be closed."""
        self.synchronize()
        for hook in self._installed:
            hook.remove()
        client, self._client = self._joined(), None
        self._gradients, self._values = [], []
        client.close()

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        if self._client is not None:
            raise Error("add_param_group: a job's keys are known when it is joined; make a new optimizer")
        super().add_param_group(param_group)

    def state_dict(self) -> Dict[str, Any]:
        """Has the servers keep parameters and state, as they are after this step, in a snapshot, which the dictionary
        names; one rank is enough. Needs servers with a state_folder."""
        if any(self._is_pushed):
            raise Error("state_dict: backward has pushed gradients of the next step; call it after step and before backward")
        self.synchronize()
        return {"snapshot": self._joined().snapshot(), "steps": self._steps,
                "param_groups": _groups.to_state(self.param_groups)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Of an optimizer that was made on the job that the snapshot was restored to, at each rank."""
        if "snapshot" not in state_dict:
            raise Error("load_state_dict: this is no state of phub.torch.Optimizer's")
        before = self._joined().rounds_before
        if state_dict["steps"] != before or self._steps != before:
            files = "; ".join(f"phubctl restore {each.replace(' at ', ' --as JOB --server ')}"
                              for each in state_dict["snapshot"])
            raise Error(f"load_state_dict: the state is of step {state_dict['steps']}, and the servers' job has {before} "
                        f"steps from a snapshot and {self._steps - before} since: before the optimizer is made with "
                        f"job=\"JOB\", run {files}")
        _groups.from_state(self.param_groups, state_dict["param_groups"])

    def _join(self, options: Options, decays: List[float]) -> None:
        client = Client(options)
        is_by_trust = options.rule in _rules.BY_TRUST
        client.register_keys([Key(name, parameter.numel(), decay, is_by_trust and parameter.dim() <= 1)
                              for name, parameter, decay in zip(self._names, self._parameters, decays)])
        shapes = [parameter.shape for parameter in self._parameters]
        self._gradients = [_tensors.gradient(client, i).view(shape) for i, shape in enumerate(shapes)]
        self._values = [_tensors.parameter(client, i).view(shape) for i, shape in enumerate(shapes)]
        self._client = client
        self._scaling = _scaling.Scaling(client) if options.votes else None
        for gradient, parameter in zip(self._gradients, self._parameters):
            gradient.copy_(parameter.detach())
        client.initialise()
        self._steps = client.rounds_before
        self._is_due = [True] * len(self._parameters)
        self.synchronize()

    def _joined(self) -> Client:
        if self._client is None:
            raise Error("this optimizer is closed")
        return self._client

    def _hyper(self) -> Tuple[float, float]:
        """What the servers are told each round, checked."""
        if self._client is not None and [group["weight_decay"] for group in self.param_groups] != self._decays:
            raise Error("weight_decay: the servers have it from the join; it cannot be changed")
        return _groups.common_hyper(self.param_groups)

    def _hook_of(self, index: int) -> Callable[[], None]:
        return lambda: self._on_gradient(index)

    def _on_gradient(self, index: int) -> None:
        if self._is_due[index] or index in self._missed:
            raise Error(f"{self._names[index]}: forward used it before its new value was there, for the module that it "
                        "is of was not called; call synchronize() before forward, or leave model out")
        self._backwards[index] += 1
        if self._backwards[index] < self._accumulate:
            return
        if self._is_pushed[index]:
            raise Error(f"{self._names[index]}: its gradient is pushed already, and this is another backward before step(); "
                        "call step() after each, or say accumulate=N for N of them")
        gradient = self._parameters[index].grad
        if gradient is None or gradient.layout != torch.strided:
            raise Error(f"{self._names[index]}: its gradient is sparse, which is not supported; make it dense "
                        "(Embedding(sparse=False))")
        self._push(index, gradient)

    def _push(self, index: int, gradient: Optional[torch.Tensor]) -> None:
        if not any(self._is_pushed):
            self._begin_round()
        if gradient is None:
            self._gradients[index].zero_()
        else:
            self._gradients[index].copy_(gradient.detach())
        if self._scaling is not None:
            self._scaling.look_at(self._gradients[index])
        self._joined().push(index)
        self._is_pushed[index] = True

    def _begin_round(self) -> None:
        self._missed = {index for index, due in enumerate(self._is_due) if due}
        self.synchronize()
        hyper = self._hyper()
        if hyper != self._sent:
            self._joined().set_hyper(*hyper)
            self._sent = hyper
        if self._samples != self._sent_samples:
            self._joined().set_samples(self._samples)
            self._sent_samples = self._samples

    def _push_absent(self) -> None:
        absent = [index for index, pushed in enumerate(self._is_pushed) if not pushed]
        if not absent:
            return
        if self._absent == "error":
            some = ", ".join(self._names[index] for index in itertools.islice(absent, 5))
            raise Error(f"{some}{', ...' if len(absent) > 5 else ''}: no gradient since the last step"
                        + (f" (or fewer than {self._accumulate} backward passes)" if self._accumulate > 1 else "")
                        + "; freeze what has none (requires_grad=False) before the optimizer is made, or say "
                        "absent=\"zeros\"")
        for index in absent:
            self._push(index, None if self._backwards[index] == 0 else self._parameters[index].grad)

    def _receive(self, index: int) -> None:
        if self._is_due[index]:
            self._joined().wait(index)
            self._copy(index)

    @torch.no_grad()
    def _copy(self, index: int) -> None:
        if self._is_due[index]:
            self._parameters[index].copy_(self._values[index])
            self._is_due[index] = False
