"""PHub in PyTorch, 1.13 and later: DDP's gradients over it, or the optimizer on its servers.

    model.register_comm_hook(None, phub.torch.ddp_hook())                                  # DistributedDataParallel's
    optimizer = phub.torch.Optimizer(model.named_parameters(), rule="adamw", lr=1e-3)      # instead of torch.optim's

Servers, rank and world size come from the environment, as phubrun sets it, or from options.
"""
from phub.torch._sampler import Sampler as sampler
from phub.torch.data import shard
from phub.torch.ddp import ddp_hook
from phub.torch.optimizer import Optimizer
from phub.torch.state import export_state, import_state

__all__ = ["Optimizer", "ddp_hook", "export_state", "import_state", "sampler", "shard"]
