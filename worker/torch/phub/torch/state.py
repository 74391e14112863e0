"""The optimizer's state on the servers, out of PHub to torch.optim and back.

    state = optimizer.state_dict()                                          # the servers write snapshots, which it names
    torch_state = phub.torch.export_state(state, "/var/lib/phub")           # torch.optim's load_state_dict takes it

    state = optimizer.state_dict()                                          # of a new phub.torch.Optimizer, as a pattern
    state = phub.torch.import_state(state, "/var/lib/phub", torch_state, model.state_dict())
    # phubctl restore FILE --as JOB, of state["snapshot"]; then make the optimizer with job="JOB", and
    optimizer.load_state_dict(state)

The pattern has the number of workers that is to be, so what 2 began 4 go on with. Both functions read, or write, files below
the servers' state_folder: they run where these are, or on copies. Nothing is asked of a server.
"""
from __future__ import annotations

import json
import pathlib
from typing import Any, Dict, List, Mapping, Tuple, Union

import torch

from phub.errors import Error
from phub.torch import _rules, _snapshot
from phub.torch._snapshot import Part, Snapshot

Folders = Union[str, "pathlib.PurePath", Mapping[str, Any]]


def export_state(state: Dict[str, Any], folders: Folders) -> Dict[str, Any]:
    """What state_dict() of torch.optim's optimizer of the same rule would be, with its parameters in the same order; the
    parameters themselves are in the model. `folders`: state_folder, of several servers by the names that `state` has of them.
    Raises Error, also of a job over racks, whose servers have no state in common but with rack_compress."""
    rule = state["rule"]
    if rule in _rules.BY_TRUST:
        raise Error(f"export_state: torch.optim has no rule \"{rule}\"")
    flat: Dict[Tuple[str, str], torch.Tensor] = {}
    steps = -1
    for snapshot in _snapshots(state, folders):
        snapshot.verify()
        _check_racks(rule, json.loads(snapshot.metadata["job"]))
        steps = snapshot.steps
        for part in snapshot.parts:
            whole = flat.setdefault((part.key, part.array), torch.zeros(_elements(state, part.key)))
            whole[part.begin:part.end] = snapshot.values(part)
    exported = {}
    for index, (name, shape, is_complex) in state["parameters"].items():
        mine = {} if rule in _rules.WITH_MOMENTUM + ("sgd",) else {"step": torch.tensor(float(steps))}
        for array, title in _rules.ARRAYS[rule].items():
            mine[title] = _shaped(flat[name, array], shape, is_complex)
        if mine:
            exported[index] = mine
    groups = [{**_rules.torch_arguments(rule), **group} for group in state["param_groups"]]
    return {"state": exported if steps > 0 else {}, "param_groups": groups}


def import_state(state: Dict[str, Any], folders: Folders, torch_state: Dict[str, Any], parameters: Mapping[str, torch.Tensor],
                 name: str = "imported") -> Dict[str, Any]:
    """Writes snapshots that begin with `torch_state`, which torch.optim's state_dict() returned, and with these parameters
    by name; "imported/NAME..." below each server's snapshots. `state`: of a new phub.torch.Optimizer with the parameters in
    the same order, whose snapshots are the pattern. Returns the state to be loaded. Raises Error."""
    steps = _steps_of([torch_state["state"].get(index, {}) for index in state["parameters"]])
    values = {}
    for index, (key, shape, is_complex) in state["parameters"].items():
        if key not in parameters:
            raise Error(f"import_state: parameters has no {key}; give those of the model, by the names that the optimizer has")
        values[key, ""] = values[key, "ema"] = _flat(key, parameters[key], shape)
        for array, title in _rules.ARRAYS[state["rule"]].items():
            there = torch_state["state"].get(index, {}).get(title)
            if there is None and steps > 0:
                raise Error(f"import_state: {key} has no {title} in the state: is it of rule \"{state['rule']}\"?")
            values[key, array] = _flat(f"{title} of {key}", torch.zeros(tuple(shape)) if there is None else there, shape,
                                       is_complex)
    groups = _groups_of(state, torch_state)
    files = []
    for number, (snapshot, server) in enumerate(zip(_snapshots(state, folders), _servers(state))):
        file = f"imported/{name}{'' if number == 0 else f'-{number}'}.safetensors"
        metadata = {title: text for title, text in snapshot.metadata.items() if title != "left_out"}
        metadata["round"] = str(steps + 1)
        tensors = [(part.title, _of_part(values, part)) for part in snapshot.parts]
        _snapshot.write(_below(folders, server) / file, metadata, tensors)
        files.append(f"{file} at {server}")
    return {**state, "snapshot": files, "steps": steps, "param_groups": groups}


def _check_racks(rule: str, job: Dict[str, Any]) -> None:
    """With rack_compress all racks make the same step with the same state. Raises Error where they do not."""
    if not _rules.ARRAYS[rule] or not job.get("racks") or job.get("rackCompress") and not job.get("rackLocalSteps"):
        return
    names = ", ".join(rack["name"] for rack in job["racks"])
    what = ("each rack has a state of its own" if job.get("rackLocalSteps") else
            "each rack has the state of a part of the parameters, and its snapshot does not say of which")
    raise Error(f"export_state: the job is over racks {names}, and {what}; restore the snapshots and go on over the same racks, "
                "or begin with a new state")


def _servers(state: Dict[str, Any]) -> List[str]:
    return [each.rpartition(" at ")[2] for each in state["snapshot"]]


def _snapshots(state: Dict[str, Any], folders: Folders) -> List[Snapshot]:
    keys = [name for name, _, _ in state["parameters"].values()]
    files = [each.rpartition(" at ")[0] for each in state["snapshot"]]
    return [Snapshot(_below(folders, server) / file, keys) for file, server in zip(files, _servers(state))]


def _below(folders: Folders, server: str) -> pathlib.Path:
    if isinstance(folders, Mapping):
        if server not in folders:
            raise Error(f"folders: none for server {server}")
        return pathlib.Path(folders[server]) / "snapshots"
    return pathlib.Path(folders) / "snapshots"


def _elements(state: Dict[str, Any], key: str) -> int:
    for name, shape, is_complex in state["parameters"].values():
        if name == key:
            return int(torch.Size(shape).numel()) * (2 if is_complex else 1)
    raise Error(f"the snapshot has a key {key}, which the state has not")


def _shaped(flat: torch.Tensor, shape: Any, is_complex: bool) -> torch.Tensor:
    return torch.view_as_complex(flat.view(*shape, 2)) if is_complex else flat.view(tuple(shape))


def _flat(what: str, tensor: torch.Tensor, shape: Any, is_complex: bool = False) -> torch.Tensor:
    if tuple(tensor.shape) != tuple(shape):
        raise Error(f"import_state: {what} has shape {tuple(tensor.shape)}, and the optimizer's parameter {tuple(shape)}; are the "
                    "parameters in the same order?")
    tensor = tensor.detach().cpu()
    if is_complex and not tensor.is_complex():
        tensor = tensor.to(torch.complex64)
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).to(torch.float32).reshape(-1)


def _of_part(values: Dict[Tuple[str, str], torch.Tensor], part: Part) -> torch.Tensor:
    if (part.key, part.array) in values:
        return values[part.key, part.array][part.begin:part.end]
    return torch.zeros(part.end - part.begin)  # what a rack kept back of its sums


def _steps_of(states: List[Dict[str, Any]]) -> int:
    """The steps that the parameters have made; 0 for rules that count none."""
    counts = {int(each["step"]) for each in states if "step" in each}
    if len(counts) > 1:
        raise Error(f"import_state: parameters have made different numbers of steps ({min(counts)} to {max(counts)}), and the "
                    "servers count them for all together")
    if any("max_exp_avg_sq" in each for each in states):
        raise Error("import_state: the state is of amsgrad, which the servers have not")
    return counts.pop() if counts else 0


def _groups_of(state: Dict[str, Any], torch_state: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The optimizer's, with what may be changed as it was there."""
    theirs = torch_state["param_groups"]
    if [len(each["params"]) for each in theirs] != [len(each["params"]) for each in state["param_groups"]]:
        raise Error("import_state: its groups have other numbers of parameters than the optimizer's")
    groups = []
    for mine, other in zip(state["param_groups"], theirs):
        for title in ("betas", "eps", "weight_decay"):
            if title in mine and title in other and _tuple(mine[title]) != _tuple(other[title]):
                raise Error(f"import_state: {title} is {other[title]} in the state and {mine[title]} in the optimizer; make it with "
                            "the same")
        groups.append({**mine, **{title: other[title] for title in ("lr", "momentum", "initial_lr") if title in other
                                  and (title in mine or title == "initial_lr")}})
    return groups


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value
