"""The server's rules beside PyTorch's optimizers: 200 steps on the same gradients.

Needs PyTorch (Debian: python3-torch); without it it is skipped.

Usage: torch_rules_test.py PATH_OF_RULE_STEPS
"""
import itertools
import subprocess
import sys
import unittest

try:
    import numpy
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

RULE_STEPS = ""
ELEMENTS = 4099
STEPS = 200
RATE = 0.01
DECAY = 0.02
# fp32 rounds otherwise in another order of operations: some units of a parameter's last place, 1e-7
# at 1, and of a step's, which is RATE at most, in each of the steps.
BOUND = 2e-5

class Lamb(torch.optim.Optimizer):
    """You et al., arXiv 1904.00962, with the identity for phi: PyTorch has none."""

    def __init__(self, parameters, lr, weight_decay, betas, eps):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state.update(step=0, mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
                state["step"] += 1
                state["mean"].mul_(beta1).add_(parameter.grad, alpha=1 - beta1)
                state["square"].mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
                mean = state["mean"] / (1 - beta1 ** state["step"])
                root = (state["square"] / (1 - beta2 ** state["step"])).sqrt()
                update = mean / (root + group["eps"]) + group["weight_decay"] * parameter
                norms = parameter.norm().item(), update.norm().item()
                trust = norms[0] / norms[1] if all(norms) else 1.0
                parameter.sub_(update, alpha=group["lr"] * trust)


OPTIMIZERS = [
    ("sgd", torch.optim.SGD, {}),
    ("momentum", torch.optim.SGD, {"momentum": 0.9}),
    ("nesterov", torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    ("adam", torch.optim.Adam, {"betas": (0.9, 0.999), "eps": 1e-8}),
    ("adam", torch.optim.Adam, {"betas": (0.0, 0.95), "eps": 1e-3}),
    ("adamw", torch.optim.AdamW, {"betas": (0.9, 0.999), "eps": 1e-8}),
    ("adamw", torch.optim.AdamW, {"betas": (0.8, 0.99), "eps": 1e-6}),
    ("adagrad", torch.optim.Adagrad, {"eps": 1e-10}),
    ("lamb", Lamb, {"betas": (0.9, 0.999), "eps": 1e-6}),
    ("lamb", Lamb, {"betas": (0.8, 0.99), "eps": 1e-3}),
]


def gradients():
    """Of both signs, over three decades, some of them 0."""
    random = numpy.random.default_rng(21)
    sizes = 10.0 ** random.uniform(-3, 0, (STEPS, ELEMENTS))
    values = sizes * random.standard_normal((STEPS, ELEMENTS))
    values[:, ::97] = 0.0
    return values.astype(numpy.float32)


class TorchRulesTest(unittest.TestCase):
    def ours(self, rule, options, initial, steps, clip_norm):
        beta1, beta2 = options.get("betas", (0.9, 0.999))
        arguments = [rule, ELEMENTS, STEPS, RATE, DECAY, options.get("momentum", 0.0), beta1, beta2,
                     options.get("eps", 1e-8), clip_norm]
        done = subprocess.run([RULE_STEPS, *map(str, arguments)], check=True, capture_output=True,
                              input=initial.tobytes() + steps.tobytes())
        return numpy.frombuffer(done.stdout, numpy.float32).reshape(STEPS, ELEMENTS)

    def test_every_step_of_every_rule_is_pytorchs(self):
        steps = gradients()
        initial = numpy.random.default_rng(22).standard_normal(ELEMENTS).astype(numpy.float32)
        for (rule, optimizer_type, options), clip_norm in itertools.product(OPTIMIZERS, (0, 17)):
            with self.subTest(rule=rule, clip_norm=clip_norm, **options):
                parameter = torch.nn.Parameter(torch.from_numpy(initial.copy()))
                optimizer = optimizer_type([parameter], lr=RATE, weight_decay=DECAY, **options)
                ours = self.ours(rule, options, initial, steps, clip_norm)
                clipped = 0
                for step in range(STEPS):
                    parameter.grad = torch.from_numpy(steps[step].copy())
                    if clip_norm > 0:
                        norm = torch.nn.utils.clip_grad_norm_([parameter], clip_norm)
                        clipped += int(norm > clip_norm)
                    optimizer.step()
                    apart = numpy.abs(parameter.detach().numpy() - ours[step]).max()
                    self.assertLess(apart, BOUND, f"after step {step}")
                self.assertGreater(numpy.abs(ours[-1] - initial).max(), 0.05)
                self.assertIn(clipped, range(STEPS // 4, STEPS) if clip_norm > 0 else (0,))


if __name__ == "__main__":
    RULE_STEPS = sys.argv.pop(1)
    unittest.main()
