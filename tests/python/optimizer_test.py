"""phub.torch.Optimizer: two ranks beside one process with torch.optim. Usage: optimizer_test.py LIBRARY BIN"""
import sys
import unittest

import launched
from launched import Server, temporary_folder, together

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub.torch  # noqa: E402
import torch_cases as cases  # noqa: E402

STEPS = 8
RATE = 0.05
# What fp32 rounds otherwise in another order; of adam's steps, which are of RATE's size whatever a gradient's, a part.
BOUNDS = {"sgd": 2e-6, "momentum": 5e-6, "nesterov": 5e-6, "adam": 2e-3, "adamw": 2e-3, "adagrad": 2e-3}
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "adagrad": (torch.optim.Adagrad, {}),
}


def groups_of(model):
    """Norms and biases do not decay."""
    named = list(model.named_parameters())
    return [{"params": [(n, p) for n, p in named if p.dim() > 1], "weight_decay": 0.01},
            {"params": [(n, p) for n, p in named if p.dim() <= 1], "weight_decay": 0.0}]


def plain_groups(model):
    return [{**group, "params": [p for _, p in group["params"]]} for group in groups_of(model)]


def optimizer_of(network, rule, **options):
    momentum = 0.9 if rule in ("momentum", "nesterov") else 0.0
    return phub.torch.Optimizer(groups_of(network), rule=rule, lr=RATE, momentum=momentum, **options)


def train(folder, rule, mode="waits in step"):
    model = cases.make()
    if cases.RANK == 1:  # worker 0's are everybody's
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1.0)
    overlap = {"model": model} if mode == "overlap" else {}
    optimizer = optimizer_of(model, rule, **overlap)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        cases.loss_of(model, cases.part(step)).backward()
        optimizer.step()
        schedule.step()
    optimizer.close()
    cases.keep(model, folder)


def accumulates(folder):
    model = cases.make()
    optimizer = optimizer_of(model, "sgd", accumulate=2)
    for step in range(0, STEPS, 2):
        optimizer.zero_grad()
        for half in range(2):
            cases.loss_of(model, cases.part(step + half)).backward()
        optimizer.step()
    cases.keep(model, folder)


def zeros(folder):
    """Rank 1 does not use a layer that rank 0 uses, and one is frozen."""
    model = cases.make(with_unused=True)
    model.norm.weight.requires_grad_(False)
    optimizer = phub.torch.Optimizer(model.named_parameters(), rule="sgd", lr=RATE, absent="zeros")
    if cases.RANK == 0:
        model.unused(torch.ones(1, 50)).sum().backward()
    optimizer.step()
    cases.keep(model, folder)


def weighs(folder):
    """Rank 1's gradients count three times as much as rank 0's."""
    model = cases.make()
    optimizer = optimizer_of(model, "sgd", order="arrival",
                             rounds=dict(quorum=1, late="add", staleness=0, weight="samples"))
    for step in range(STEPS):
        optimizer.set_samples(16.0 if step % 2 == 0 else 48.0)
        optimizer.zero_grad()
        cases.loss_of(model, cases.part(step)).backward()
        optimizer.step()
    optimizer.close()


class OptimizerTest(unittest.TestCase):
    def ranks(self, function, *arguments):
        folder = temporary_folder(self)
        for status, _, error in together(self, function, folder, *arguments):
            self.assertEqual(status, 0, error)
        cases.same_bits(self, cases.kept(folder, 0), cases.kept(folder, 1))
        return cases.kept(folder, 0)

    def single(self, rule, averaged=False):
        model = cases.make()
        kind, options = OPTIMIZERS[rule]
        optimizer = kind(plain_groups(model), lr=RATE, **options)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
        for step in range(STEPS):
            optimizer.zero_grad()
            if averaged:
                cases.mean_gradients(model, step, 2)
            else:
                cases.loss_of(model, cases.batch(step)).backward()
            optimizer.step()
            schedule.step()
        return [p.detach() for p in model.parameters()]

    def test_every_rule_is_pytorchs_on_the_joined_batch(self):
        for rule in OPTIMIZERS:
            with self.subTest(rule):
                cases.close(self, self.ranks(train, rule), self.single(rule), BOUNDS[rule])

    def test_sgd_to_the_bit(self):
        """The servers' w - lr * (g + wd * w), each operation rounded, as written out here."""
        model = cases.make()
        decays = {id(p): g["weight_decay"] for g in plain_groups(model) for p in g["params"]}
        for step in range(STEPS):
            cases.mean_gradients(model, step, 2)
            rate = torch.tensor(RATE * 0.5 ** (step // 3), dtype=torch.float32)
            with torch.no_grad():
                for p in model.parameters():
                    decayed = p.grad + torch.tensor(decays[id(p)], dtype=torch.float32) * p
                    p.copy_(p - rate * decayed)
        ours = self.ranks(train, "sgd")
        cases.same_bits(self, ours, [p.detach() for p in model.parameters()])

    def test_each_forward_waits_for_its_own(self):
        cases.same_bits(self, self.ranks(train, "adamw", "overlap"), self.ranks(train, "adamw"))

    def test_accumulation(self):
        model = cases.make()
        optimizer = torch.optim.SGD(plain_groups(model), lr=RATE)
        for step in range(0, STEPS, 2):
            optimizer.zero_grad()
            for half in range(2):
                cases.loss_of(model, cases.batch(step + half)).backward()
            optimizer.step()
        cases.close(self, self.ranks(accumulates), [p.detach() for p in model.parameters()], BOUNDS["sgd"])

    def test_gradients_weigh_by_samples(self):
        for status, _, error in together(self, weighs, temporary_folder(self)):
            self.assertEqual(status, 0, error)

    def test_absent_gradients_are_zeros_where_asked_for(self):
        ours = self.ranks(zeros)
        model = cases.make(with_unused=True)
        model.unused(torch.ones(1, 50)).sum().backward()
        expected = [p.detach() if p.grad is None else p.detach() - RATE * p.grad / 2 for p in model.parameters()]
        cases.close(self, ours, expected, 1e-6)


class AloneTest(unittest.TestCase):
    """What one worker is told."""

    def setUp(self):
        self.server = Server(cores=1)
        self.addCleanup(self.server.close)

    def optimizer(self, network, rule="sgd", lr=RATE, **options):
        made = phub.torch.Optimizer(network.named_parameters(), rule=rule, lr=lr, servers=self.server.control, workers=1,
                                    worker_index=0, **options)
        self.addCleanup(lambda: made._client and made._client.close())
        return made

    def test_what_cannot_be_is_named_with_its_cure(self):
        model = cases.make(with_unused=True)
        optimizer = self.optimizer(model)
        with self.assertRaisesRegex(phub.Error, "first.weight.*no gradient.*absent=\"zeros\""):
            optimizer.step()
        cases.loss_of(model, cases.batch(0)).backward()
        with self.assertRaisesRegex(phub.Error, "unused.weight, unused.bias: no gradient"):
            optimizer.step()
        with self.assertRaisesRegex(phub.Error, "pushed already.*accumulate=N"):
            cases.loss_of(model, cases.batch(0)).backward()
        self.assertRaisesRegex(phub.Error, "a new optimizer", optimizer.add_param_group, {})
        with self.assertRaisesRegex(phub.Error, "GradScaler.*loss_scaling=\"voted\".*bfloat16"):
            optimizer.step(grad_scaler=object())

    def test_what_has_no_effect_is_an_error(self):
        model = cases.make()
        for rule, options, message in (
                ("elastic", {}, "makes no step of gradients; choose one of sgd,.*lamb"),
                ("sum", {}, "makes no step of gradients"), ("rmsprop", {}, "makes no step of gradients"),
                ("sgd", {"momentum": 0.9}, "momentum: 0.9 has no effect.*choose momentum, nesterov, lars"),
                ("adamw", {"momentum": 0.9}, "momentum: .*set betas"),
                ("lars", {"betas": (0.8, 0.999)}, "betas: .*choose adam, adamw, lamb"),
                ("lars", {"eps": 1e-6}, "eps: .*set trust_epsilon"), ("sgd", {"eps": 1e-6}, "eps: .*or leave it out"),
                ("lamb", {"betas": (0.0, 0.999)}, "betas: 0 cannot")):
            with self.subTest(rule=rule, **options), self.assertRaisesRegex(phub.Error, message):
                self.optimizer(model, rule=rule, **options)
        optimizer = self.optimizer(model)
        optimizer.report_steps(2.0, input_seconds=1.0, exchange_seconds=0.5, steps=4)
        with self.assertRaisesRegex(phub.Error, "step_waits.input_ns"):
            optimizer.report_steps(1.0, input_seconds=2.0, exchange_seconds=0.0)
        with self.assertRaisesRegex(phub.Error, "set_samples: .*weight"):
            optimizer.set_samples(3.0)

    def trained(self, rule, **options):
        model = cases.make()
        optimizer = self.optimizer(model, rule, **options)
        for step in range(STEPS):
            cases.loss_of(model, cases.batch(step)).backward()
            optimizer.step()
            optimizer.zero_grad()
        return [p.detach() for p in model.parameters()]

    def test_lamb_has_its_betas_and_biases_a_trust_of_1(self):
        betas, eps, model = (0.5, 0.9), 1e-6, cases.make()
        means = [torch.zeros_like(p) for p in model.parameters()]
        squares = [torch.zeros_like(p) for p in model.parameters()]
        for step in range(STEPS):
            model.zero_grad()
            cases.loss_of(model, cases.batch(step)).backward()
            for p, mean, square in zip(model.parameters(), means, squares):
                mean.mul_(betas[0]).add_(p.grad, alpha=1 - betas[0])
                square.mul_(betas[1]).addcmul_(p.grad, p.grad, value=1 - betas[1])
                root = (square / (1 - betas[1] ** (step + 1))).sqrt()
                direction = mean / (1 - betas[0] ** (step + 1)) / (root + eps)
                trust = p.detach().norm() / direction.norm() if p.dim() > 1 else 1.0
                with torch.no_grad():
                    p.sub_(RATE * trust * direction)
        cases.close(self, self.trained("lamb", betas=betas), [p.detach() for p in model.parameters()], BOUNDS["adam"])

    def test_lars_gives_biases_a_trust_of_1(self):
        model = cases.make()
        for step in range(STEPS):
            model.zero_grad()
            cases.loss_of(model, cases.batch(step)).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p.sub_(RATE * (0.02 * p.norm() / p.grad.norm() if p.dim() > 1 else 1.0) * p.grad)
        cases.close(self, self.trained("lars", trust_coefficient=0.02), [p.detach() for p in model.parameters()], 1e-5)

    def test_a_rate_that_is_changed_too_late(self):
        model = cases.make()
        optimizer = self.optimizer(model)
        cases.loss_of(model, cases.batch(0)).backward()
        optimizer.param_groups[0]["lr"] = 1.0
        with self.assertRaisesRegex(phub.Error, "lr, momentum: changed between backward"):
            optimizer.step()

    def test_groups_that_differ_where_servers_cannot(self):
        model = cases.make()
        groups = [{"params": model.first.parameters()}, {"params": model.last.parameters(), "lr": 1.0}]
        with self.assertRaisesRegex(phub.Error, "lr: groups have"):
            phub.torch.Optimizer(groups, rule="sgd", lr=0.1, servers=self.server.control)
        with self.assertRaisesRegex(phub.Error, "none of them needs a gradient"):
            phub.torch.Optimizer([torch.zeros(3)], rule="sgd", lr=0.1, servers=self.server.control)

    def test_sparse_gradients(self):
        model = torch.nn.Embedding(10, 3, sparse=True)
        self.optimizer(model)
        with self.assertRaisesRegex(phub.Error, "weight: its gradient is sparse.*dense"):
            model(torch.tensor([1, 2])).sum().backward()

    def test_parameters_that_others_read(self):
        """MultiheadAttention reads its child's parameters without calling it; a class of one's own is caught."""
        attention = torch.nn.MultiheadAttention(8, 2)
        optimizer = self.optimizer(attention, model=attention)
        x = torch.ones(3, 1, 8)
        for _ in range(3):
            attention(x, x, x)[0].square().sum().backward()
            optimizer.step()

        class Reads(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.child = torch.nn.Linear(4, 4)

            def forward(self, x):
                return torch.nn.functional.linear(x, self.child.weight, self.child.bias)

        reads = Reads()
        optimizer = self.optimizer(reads, model=reads)
        reads(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        with self.assertRaisesRegex(phub.Error, "child.(weight|bias): forward used it before.*synchronize"):
            reads(torch.ones(1, 4)).sum().backward()


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))
