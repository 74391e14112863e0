"""The optimizer on PHub's servers."""
from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

import torch

from phub import _environment
from phub.client import Client, Key
from phub.errors import Error
from phub.options import Options
from phub.torch import _changes, _groups, _hooks, _rules, _scaling, _tensors


class Optimizer(torch.optim.Optimizer):
    """Takes the place of torch.optim's: the servers have the optimizer's state and make the step.

    A parameter's gradient is pushed by backward as soon as it is there; step() waits for the new parameters. Making one
    joins the job, waits for all of its workers, and gives each of them worker 0's parameters.

    params: named_parameters(), parameters(), or groups as torch.optim's. Groups may differ in weight_decay; the rest is
      the job's, and so the same in all of them. Parameters that need no gradient, or have no elements, are left out.
    rule: "sgd", "momentum", "nesterov", "adam", "adamw", "adagrad", by PyTorch's formulas, with its defaults; "lars",
      "lamb", under which parameters of one dimension (biases, norms) have a trust of 1.
    lr: may be changed between a step and the next backward, by a scheduler too, and so may momentum; worker 0's counts.
    model: with it step() does not wait: each module's forward waits for its own parameters alone. Code that reads
      parameters elsewhere calls synchronize() first.
    push: "backward", or "step": step() pushes what is in .grad then, as torch.optim takes it, and nothing is pushed while
      backward goes on. A program that changes gradients, or calls backward otherwise than once a step, needs "step".
    accumulate: backward passes of a step; gradients are pushed by the last of them, or by step() if it comes before.
    absent: what to do in step() about a parameter without a gradient. "error", or "zeros": push zeros.
    options: Options' fields; what is not given comes from the environment. Arguments of torch.optim's that change no step
      (foreach, fused, amsgrad=False) are taken.

    To clip the mean of all workers' gradients is the servers' too: clip_norm=... in the options; clip_grad_norm_ with
    push="step" clips this worker's alone. With loss_scaling="voted" a GradScaler's step(optimizer) works: the servers divide by its
    scale, and leave a step out for all where one worker's gradients are not finite.
    A program that changes parameters itself calls send_parameters() then: without, the next backward raises an error.
    Raises phub.Error.
    """

    def __init__(self, params: Iterable[Any], rule: str, lr: float, *, momentum: Optional[float] = None,
                 betas: Optional[Tuple[float, float]] = None, eps: Optional[float] = None,
                 weight_decay: Optional[float] = None, model: Optional[torch.nn.Module] = None, push: str = "backward",
                 accumulate: int = 1, absent: str = "error", **options: Any) -> None:
        _check_choices(push, accumulate, absent)
        defaults = _rules.defaults_of(rule, dict(lr=lr, momentum=momentum, betas=betas, eps=eps, weight_decay=weight_decay))
        _rules.take_arguments_of_torch(rule, options)
        groups, names = _groups.groups_of(params)
        self._client: Optional[Client] = None
        self._after_step: Optional[Callable[[], None]] = None
        super().__init__(groups, defaults)
        _rules.check_groups(rule, self.param_groups)
        self._absent, self._accumulate, self._pushes_in_step = absent, accumulate, push == "step"
        self._choose(names)
        self._fixed = _groups.Fixed(rule, self.param_groups)
        self._sent = self._hyper()
        self._samples = self._sent_samples = 1.0
        self._gradients_pushed = _changes.Gradients(len(self._parameters))
        job = _environment.options("optimizer", {**options, **_rules.fields_of(rule, self.param_groups[0])})
        self._options, self._jobs = Options(**job), 0
        self._join(self._options)
        self._installed = [_hooks.after_accumulation(parameter, functools.partial(self._on_gradient, index))
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
        _scaling.check_stage(grad_scaler, self, self._pushes_in_step)
        self._check_since_push()
        self._push_absent()
        if self._hyper() != self._sent:
            raise Error("lr, momentum: changed between backward, which pushed the gradients with the old ones, and step; "
                        "change them after step and before backward, or say push=\"step\"")
        self._backwards = [0] * len(self._parameters)
        self._is_pushed = [False] * len(self._parameters)
        self._is_due = [True] * len(self._parameters)
        self._missed = set()
        self._steps += 1
        if self._scaling is not None:
            self._scaling.vote(grad_scaler, self)
        if self._waits_in_step:
            self.synchronize()
        if self._scaling is not None:
            self._receive(0)  # the scaler is to know at once
            self._scaling.tell(grad_scaler, self, self._parameters[0].device)
        if self._after_step is not None:
            self._after_step()
        return loss

    @property
    def place(self) -> Tuple[int, int, Optional[int]]:
        """This worker's index, the number of workers, and the backward passes of a step, where that is fixed."""
        client = self._joined()
        return client.worker_index, client.workers, None if self._pushes_in_step else self._accumulate

    def after_step(self, tell: Callable[[], None]) -> None:
        """Calls `tell` at the end of each step from now on, in place of what was given before."""
        self._after_step = tell

    def synchronize(self) -> None:
        """Waits for all parameters of the last step."""
        if not any(self._is_due):
            return
        self._joined().wait_all()
        for index in range(len(self._parameters)):
            self._copy(index)

    def send_parameters(self) -> None:
        """Makes worker 0's parameters, as they are now, everybody's and the servers'. A program needs it when it has loaded a
        checkpoint into the model, or has written parameters in another way. Every rank calls it, after step and before
        backward, and waits for the others. The optimizer's state begins anew (momentum, means, the step), as with a new
        torch.optim's, for it is another job, "JOB-again1"; rule "sgd" has none."""
        if any(self._is_pushed):
            raise Error("send_parameters: backward has pushed gradients already; call it after step and before backward")
        self.synchronize()
        self._leave()
        self._jobs += 1
        rate, momentum = self._hyper()
        self._join(self._options.replace(job=f"{self._options.job}-again{self._jobs}", learning_rate=rate,
                                       momentum=momentum))
        self._sent, self._sent_samples = (rate, momentum), 1.0

    def set_samples(self, samples: float) -> None:
        """With rounds={"weight": "samples", ...}: images or tokens in each of this worker's gradients from the next backward on."""
        if self._joined().options.get("rounds.weight") != "samples":
            raise Error("set_samples: the job's rounds do not weigh by samples; say rounds={\"weight\": \"samples\", ...}, with a quorum")
        if any(self._is_pushed):
            raise Error("set_samples: backward has pushed gradients already; call it after step and before backward")
        self._samples = samples

    def report_steps(self, seconds: float, input_seconds: float, exchange_seconds: float, steps: int = 1,
                     samples: int = 0) -> None:
        """As phub.Client.report_steps: what the steps since the last call took. The program knows how long its loader took;
        the exchange is what `step()` waited."""
        self._joined().report_steps(seconds, input_seconds, exchange_seconds, steps, samples)

    def close(self) -> None:
        """Waits for the last step and leaves the job. What ends with the process need not be closed."""
        try:
            self.synchronize()
        finally:
            for hook in self._installed:
                hook.remove()
            self._leave()

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        if self._client is not None:
            raise Error("add_param_group: a job's keys are known when it is joined; make a new optimizer")
        super().add_param_group(param_group)

    def state_dict(self) -> Dict[str, Any]:
        """Has the servers keep parameters and state, as they are after this step, in a snapshot, which the dictionary
        names; one rank is enough. Needs servers with a state_folder. export_state makes torch.optim's of it."""
        if any(self._is_pushed):
            raise Error("state_dict: backward has pushed gradients of the next step; call it after step and before backward")
        self.synchronize()
        indexes = {id(parameter): index for index, parameter in
                   enumerate(each for group in self.param_groups for each in group["params"])}
        parameters = {indexes[id(parameter)]: (name, tuple(parameter.shape), parameter.is_complex())
                      for name, parameter in zip(self._names, self._parameters)}
        return {"snapshot": self._joined().snapshot(), "steps": self._steps, "rule": self._options.rule,
                "parameters": parameters, "param_groups": _groups.to_state(self.param_groups)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Of an optimizer that was made on the job that the snapshot was restored to, at each rank."""
        if "snapshot" not in state_dict:
            raise Error("load_state_dict: this is no state of phub.torch.Optimizer's; one of torch.optim's comes to the servers "
                        "by phub.torch.import_state")
        before = self._joined().rounds_before
        if state_dict["steps"] != before or self._steps != before:
            files = "; ".join(f"phubctl restore {each.replace(' at ', ' --as JOB --server ')}"
                              for each in state_dict["snapshot"])
            raise Error(f"load_state_dict: the state is of step {state_dict['steps']}, and the servers' job has {before} "
                        f"steps from a snapshot and {self._steps - before} since: before the optimizer is made with "
                        f"job=\"JOB\", run {files}")
        _groups.from_state(self.param_groups, state_dict["param_groups"])

    def _choose(self, names: Dict[int, str]) -> None:
        """Which parameters the servers have, in the groups' order, and what they are called."""
        decays = [(parameter, group["weight_decay"]) for group in self.param_groups for parameter in group["params"]]
        chosen = [(parameter, decay) for parameter, decay in decays if parameter.requires_grad and parameter.numel() > 0]
        if not chosen:
            raise Error("params: none of them needs a gradient")
        self._parameters = [parameter for parameter, _ in chosen]
        self._decays = [decay for _, decay in chosen]
        self._names = [names.get(id(parameter), f"parameter{i}") for i, parameter in enumerate(self._parameters)]
        for name, parameter in zip(self._names, self._parameters):
            _tensors.check(name, parameter)
        self._frozen = [(names.get(id(parameter), f"a parameter of shape {tuple(parameter.shape)}"), parameter)
                        for parameter, _ in decays if not parameter.requires_grad and parameter.numel() > 0]

    def _join(self, options: Options) -> None:
        client = Client(options)
        is_by_trust = options.rule in _rules.BY_TRUST
        numbers = [_tensors.real(parameter) for parameter in self._parameters]
        client.register_keys([Key(name, values.numel(), decay, is_by_trust and parameter.dim() <= 1)
                              for name, parameter, values, decay in zip(self._names, self._parameters, numbers, self._decays)])
        self._gradients = [_tensors.gradient(client, i).view(values.shape) for i, values in enumerate(numbers)]
        self._values = [_tensors.parameter(client, i).view(values.shape) for i, values in enumerate(numbers)]
        self._client = client
        self._scaling = _scaling.Scaling(client) if options.get("loss_scaling") == "voted" else None
        for gradient, values in zip(self._gradients, numbers):
            gradient.copy_(values)
        client.initialise()
        self._steps = client.rounds_before
        self._backwards = [0] * len(self._parameters)  # since the last step
        self._is_pushed = [False] * len(self._parameters)
        self._is_due = [True] * len(self._parameters)  # its new value has not been copied yet
        self._missed: Set[int] = set()  # what was still due when this round's first gradient came
        # With a quorum a round may end without this worker, and its values come when they come.
        self._noticed = _changes.Parameters(self._parameters, self._values, has_values=not options.get("rounds.quorum"))
        client.wait_all()
        for index in range(len(self._parameters)):
            self._take(index)

    def _leave(self) -> None:
        client, self._client = self._joined(), None
        self._gradients, self._values = [], []
        del self._noticed
        client.close()

    def _joined(self) -> Client:
        if self._client is None:
            raise Error("this optimizer is closed")
        return self._client

    def _hyper(self) -> Tuple[float, float]:
        """What the servers are told each round, checked."""
        self._fixed.check(self.param_groups)
        return _groups.common_hyper(self.param_groups)

    def _on_gradient(self, index: int) -> None:
        if self._is_due[index] or index in self._missed:
            raise Error(f"{self._names[index]}: forward used it before its new value was there, for the module that it "
                        "is of was not called; call synchronize() before forward, or leave model out")
        self._backwards[index] += 1
        if self._pushes_in_step or self._backwards[index] < self._accumulate:
            return
        if self._is_pushed[index]:
            raise Error(f"{self._names[index]}: its gradient is pushed already, and this is another backward before step(), or "
                        "a second part of this one; call step() after each, or say accumulate=N for N of them, or push=\"step\", "
                        "by which step() takes what .grad has then")
        self._push(index, self._gradient_of(index))

    def _gradient_of(self, index: int) -> Optional[torch.Tensor]:
        gradient = self._parameters[index].grad
        if gradient is not None and gradient.layout != torch.strided:
            raise Error(f"{self._names[index]}: its gradient is sparse, which is not supported; make it dense "
                        "(Embedding(sparse=False))")
        return gradient

    def _push(self, index: int, gradient: Optional[torch.Tensor]) -> None:
        if not any(self._is_pushed):
            self._begin_round()
            if self._scaling is not None:
                self._scaling.begin_round(self)
        if gradient is None:
            self._gradients[index].zero_()
        else:
            self._gradients[index].copy_(_tensors.real(gradient))
        if self._scaling is not None:
            self._scaling.look_at(self._gradients[index])
        self._joined().push(index)
        self._is_pushed[index] = True
        self._gradients_pushed.note(index, gradient)

    def _begin_round(self) -> None:
        self._missed = {index for index, due in enumerate(self._is_due) if due}
        self.synchronize()
        changed = self._noticed.changed()
        if changed:
            raise Error(f"{_some(self._names, changed)}: written since the servers' values came, which would be lost with this step: "
                        "call send_parameters() at every rank after it (a checkpoint that was loaded, weights that were clamped), "
                        "or write parameters before the optimizer is made")
        hyper = self._hyper()
        if hyper != self._sent:
            self._joined().set_hyper(*hyper)
            self._sent = hyper
        if self._samples != self._sent_samples:
            self._joined().set_samples(self._samples)
            self._sent_samples = self._samples

    def _check_since_push(self) -> None:
        """Raises Error for what was changed after backward had pushed it, and for what nobody pushes."""
        pushed = [index for index, is_pushed in enumerate(self._is_pushed) if is_pushed]
        changed = [index for index in pushed if self._gradients_pushed.is_changed(index, self._parameters[index].grad)]
        if changed:
            raise Error(f"{_some(self._names, changed)}: the gradient was changed or dropped after backward had pushed it, which the "
                        "servers do not see: say push=\"step\", by which step() takes what .grad has then; to clip the mean of "
                        "all workers' gradients, clip_norm=... instead of clip_grad_norm_")
        written = [index for index in pushed if not self._is_due[index] and self._noticed.is_written(index)]
        if written:
            raise Error(f"{_some(self._names, written)}: written between backward, which pushed the gradient, and step(), which replaces "
                        "it; write parameters after step(), and call send_parameters() then")
        thawed = [name for name, parameter in self._frozen if parameter.requires_grad]
        if thawed:
            raise Error(f"{', '.join(thawed[:5])}: needed no gradient when the optimizer was made, so the servers do not have it; "
                        "close() this one and make another, or freeze what is to be frozen after the optimizer is made, with "
                        "absent=\"zeros\"")

    def _push_absent(self) -> None:
        left = [index for index, pushed in enumerate(self._is_pushed) if not pushed]
        gradients = {index: self._gradient_of(index) if self._pushes_in_step or self._backwards[index] > 0 else None
                     for index in left}
        absent = [index for index in left if gradients[index] is None]
        if absent and self._absent == "error":
            has_old = any(self._parameters[index].grad is not None for index in absent)
            raise Error(f"{_some(self._names, absent)}: no gradient since the last step; freeze what has none (requires_grad=False) before "
                        "the optimizer is made, or say absent=\"zeros\""
                        + ("; convert and move a model (.to, .half) before the optimizer is made, too" if has_old else ""))
        for index in left:
            self._push(index, gradients[index])

    def _receive(self, index: int) -> None:
        if self._is_due[index]:
            self._joined().wait(index)
            self._copy(index)

    def _copy(self, index: int) -> None:
        if not self._is_due[index]:
            return
        if self._noticed.is_written(index):
            raise Error(f"{self._names[index]}: written since step(), whose value comes only now and would replace it; call "
                        "synchronize() after step() and before parameters are written, and send_parameters() then")
        self._take(index)

    @torch.no_grad()
    def _take(self, index: int) -> None:
        _tensors.real(self._parameters[index]).copy_(self._values[index])
        self._is_due[index] = False
        self._noticed.note(index)


def _some(names: List[str], indexes: List[int]) -> str:
    first = ", ".join(names[index] for index in indexes[:5])
    return f"{first}, ..." if len(indexes) > 5 else first


def _check_choices(push: str, accumulate: int, absent: str) -> None:
    if absent not in ("error", "zeros"):
        raise Error(f"absent: \"{absent}\" is neither \"error\" nor \"zeros\"")
    if push not in ("backward", "step"):
        raise Error(f"push: \"{push}\" is neither \"backward\" nor \"step\"")
    if accumulate < 1:
        raise Error(f"accumulate: {accumulate} is below 1")
    if accumulate > 1 and push == "step":
        raise Error("accumulate: has no effect with push=\"step\", which takes what .grad has, after however many backward "
                    "passes; leave it out")
