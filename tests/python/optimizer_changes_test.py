"""phub.torch.Optimizer beside what programs do with parameters, gradients and groups themselves.

Usage: optimizer_changes_test.py LIBRARY BIN
"""
import copy
import io
import sys
import unittest

import launched
from launched import Server, temporary_folder, together

try:
    import torch
    from torch.utils.checkpoint import checkpoint
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub.torch  # noqa: E402
import torch_cases as cases  # noqa: E402

RATE = 0.05


def sends(folder):
    """Both load a checkpoint into a model that has an optimizer, rank 1 another one than rank 0."""
    model = cases.make()
    optimizer = phub.torch.Optimizer(model.named_parameters(), rule="momentum", lr=RATE, momentum=0.9)
    for step in range(4):
        if step == 2:
            model.load_state_dict({name: torch.full_like(value, 0.01 + cases.RANK) for name, value in model.state_dict().items()})
            optimizer.send_parameters()
        optimizer.zero_grad()
        cases.loss_of(model, cases.part(step)).backward()
        optimizer.step()
    optimizer.close()
    cases.keep(model, folder)


class SentTest(unittest.TestCase):
    def test_worker_0s_parameters_are_everybodys(self):
        folder = temporary_folder(self)
        for status, _, error in together(self, sends, folder):
            self.assertEqual(status, 0, error)
        model = cases.make()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(0.01)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
        for step in range(2, 4):
            cases.mean_gradients(model, step, 2)
            optimizer.step()
        cases.same_bits(self, cases.kept(folder, 0), cases.kept(folder, 1))
        cases.close(self, cases.kept(folder, 0), [p.detach() for p in model.parameters()], 5e-6)


class ChangesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(cores=1)
        cls.addClassCleanup(cls.server.close)

    def optimizer(self, network, rule="sgd", lr=RATE, **options):
        made = phub.torch.Optimizer(network.named_parameters(), rule=rule, lr=lr, servers=self.server.control, workers=1,
                                    worker_index=0, **options)
        self.addCleanup(lambda: made._client and made._client.close())
        return made

    def train(self, model, optimizer, steps, between=lambda model: None, loss_of=cases.loss_of):
        for step in range(steps):
            optimizer.zero_grad()
            loss_of(model, cases.batch(step)).backward()
            between(model)
            optimizer.step()

    def is_torchs(self, bound=5e-6, steps=4, between=lambda model: None, loss_of=cases.loss_of, make=cases.make,
                  kind=torch.optim.SGD, torchs=None, **options):
        """The servers' optimizer does what torch.optim's of that kind does."""
        ours, theirs = make(), make()
        self.train(ours, self.optimizer(ours, **options), steps, between, loss_of)
        self.train(theirs, kind(theirs.parameters(), **(torchs or {"lr": RATE})), steps, between, loss_of)
        cases.close(self, [p.detach() for p in ours.parameters() if p.numel() > 0],
                    [p.detach() for p in theirs.parameters() if p.numel() > 0], bound)

    # ---- Parameters ----

    def test_a_checkpoint_that_is_loaded_is_noticed(self):
        model = cases.make()
        optimizer = self.optimizer(model, "adam")
        model.load_state_dict(model.state_dict())  # what was there anyway
        self.train(model, optimizer, 1)
        model.load_state_dict({name: torch.full_like(value, 2.0) for name, value in model.state_dict().items()})
        for _ in range(2):
            with self.assertRaisesRegex(phub.Error, "^first.weight, first.bias, .*: written since.*send_parameters.*before the "
                                                    "optimizer is made"):
                self.train(model, optimizer, 1)
        optimizer.send_parameters()
        self.train(model, optimizer, 1)
        for parameter in model.parameters():
            self.assertLess((parameter - 2.0).abs().max().item(), 2 * RATE)

    def test_one_weight_that_is_written_by_way_of_data_is_noticed(self):
        model = cases.make()
        optimizer = self.optimizer(model)
        self.train(model, optimizer, 1)
        model.last.weight.data[2, 7] = 0.5
        with self.assertRaisesRegex(phub.Error, "^last.weight: written since"):
            self.train(model, optimizer, 1)

    def test_where_sums_are_compared(self):
        """As on a GPU, whose memory is not compared with what came."""
        from phub.torch import _changes
        values = [torch.arange(6.0), torch.ones(2)]
        parameters = [torch.nn.Parameter(value.clone()) for value in values]
        on_host, _changes._is_on_host = _changes._is_on_host, lambda _: False
        self.addCleanup(setattr, _changes, "_is_on_host", on_host)
        noticed = _changes.Parameters(parameters, values, has_values=True)
        for index in range(2):
            noticed.note(index)
        self.assertEqual(noticed.changed(), [])
        with torch.no_grad():
            parameters[0].copy_(values[0])
        self.assertEqual(noticed.changed(), [])
        parameters[1].data.clamp_(max=0.5)
        self.assertEqual(noticed.changed(), [1])
        with torch.no_grad():
            parameters[0][[0, 1]] = parameters[0][[1, 0]]
        self.assertEqual(noticed.changed(), [0, 1])

    def test_parameters_that_are_written_before_step(self):
        model = cases.make()
        optimizer = self.optimizer(model)
        cases.loss_of(model, cases.batch(0)).backward()
        with torch.no_grad():
            model.first.weight.clamp_(-0.01, 0.01)
        with self.assertRaisesRegex(phub.Error, "^first.weight: written between backward.*after step.*send_parameters"):
            optimizer.step()
        self.assertRaisesRegex(phub.Error, "send_parameters: backward has pushed", optimizer.send_parameters)

    def test_parameters_that_are_written_before_they_came(self):
        model = cases.make()
        optimizer = self.optimizer(model, model=model)
        self.train(model, optimizer, 1)
        with torch.no_grad():
            model.second.weight.zero_()
        with self.assertRaisesRegex(phub.Error, r"^second.weight: written since step\(\).*synchronize"):
            model(cases.batch(1)[0])
        self.assertRaisesRegex(phub.Error, "synchronize", optimizer.send_parameters)
        self.assertRaisesRegex(phub.Error, "synchronize", optimizer.close)
        self.assertRaisesRegex(phub.Error, "closed", optimizer.close)

    def test_parameters_are_sent_where_each_forward_waits(self):
        ours, theirs = cases.make(), cases.make()
        optimizer, plain = self.optimizer(ours, model=ours), torch.optim.SGD(theirs.parameters(), lr=RATE)
        for _ in range(2):
            self.train(ours, optimizer, 2)
            optimizer.synchronize()
            self.train(theirs, plain, 2)
            for model in (ours, theirs):
                model.last.weight.data.clamp_(-0.01, 0.01)
            optimizer.send_parameters()
        cases.close(self, [p.detach() for p in ours.parameters()], [p.detach() for p in theirs.parameters()], 5e-6)

    def test_a_model_that_is_converted_later(self):
        """PyTorch 1.13 forgets the hooks of a parameter then."""
        model = cases.make()
        optimizer = self.optimizer(model)
        model.half().float()
        try:
            self.train(model, optimizer, 1)
        except phub.Error as error:
            self.assertRegex(str(error), "^first.weight, .*(written since|convert and move a model .* before)")

    # ---- Gradients ----

    def test_gradients_that_are_changed_after_backward(self):
        for change in (lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01),
                       lambda model: [p.grad.add_(0.1) for p in model.parameters()],
                       lambda model: model.zero_grad(set_to_none=True), lambda model: model.zero_grad(set_to_none=False)):
            model = cases.make()
            with self.assertRaisesRegex(phub.Error, "^first.weight, .*changed or dropped after backward.*push=\"step\".*clip_norm"):
                self.train(model, self.optimizer(model), 1, change)

    def test_step_pushes_what_grad_has(self):
        self.is_torchs(push="step", between=lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01))

    def test_backward_passes_as_many_as_there_are(self):
        def twice(model, data):
            loss = cases.loss_of(model, data)
            loss.backward(retain_graph=True)
            return loss

        with self.assertRaisesRegex(phub.Error, "pushed already.*accumulate=N.*push=\"step\""):
            model = cases.make()
            self.train(model, self.optimizer(model), 1, loss_of=twice)
        self.is_torchs(push="step", loss_of=twice)
        self.is_torchs(accumulate=2, loss_of=twice)
        self.is_torchs(accumulate=4, loss_of=twice)  # the last steps of an epoch have fewer

    def test_a_shared_layer_is_computed_again(self):
        def again(model, data):
            x = model.norm(model.first(data[0].requires_grad_()))
            for _ in range(2):
                x = checkpoint(model.norm, x, use_reentrant=True)
            return torch.nn.functional.cross_entropy(model.last(torch.relu(model.second(x))), data[1])

        with self.assertRaisesRegex(phub.Error, "norm.(weight|bias): .*a second part of this one.*push=\"step\""):
            model = cases.make()
            self.train(model, self.optimizer(model), 1, loss_of=again)
        self.is_torchs(push="step", loss_of=again)

    def test_a_parameter_that_is_thawed_later(self):
        model = cases.make()
        model.norm.weight.requires_grad_(False)
        optimizer = self.optimizer(model)
        self.train(model, optimizer, 1)
        model.norm.weight.requires_grad_(True)
        with self.assertRaisesRegex(phub.Error, "^norm.weight: needed no gradient when.*make another"):
            self.train(model, optimizer, 1)

    # ---- Kinds of parameters ----

    def test_parameters_without_elements_are_left_out(self):
        def make():
            model = cases.make()
            model.empty = torch.nn.Parameter(torch.empty(0, 3))
            return model
        self.is_torchs(make=make)

    def test_complex_parameters_have_both_parts(self):
        class Turns(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.factor = torch.nn.Parameter(torch.full((20,), 1 + 2j, dtype=torch.complex64))

            def forward(self, x):
                return (self.factor * self.factor * x).sum().abs()

        def loss_of(model, data):
            return model(data[0])

        for rule, kind in (("sgd", torch.optim.SGD), ("adam", torch.optim.Adam)):
            self.is_torchs(make=Turns, loss_of=loss_of, rule=rule, kind=kind, bound=2e-5)

    def test_what_would_be_rounded_is_an_error(self):
        for dtype, smaller in ((torch.float64, "float32"), (torch.complex128, "complex64")):
            model = torch.nn.Module()
            model.wide = torch.nn.Parameter(torch.ones(3, dtype=dtype))
            with self.assertRaisesRegex(phub.Error, f"^wide: is {str(dtype)[6:]}.*{smaller}.*torch.optim"):
                self.optimizer(model)

    # ---- Groups ----

    def cycles(self, optimizer, **options):
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=8, **options)

    def test_one_cycle_changes_momentum(self):
        ours, theirs = cases.make(), cases.make()
        for model, optimizer in ((ours, self.optimizer(ours, "momentum", momentum=0.9)),
                                 (theirs, torch.optim.SGD(theirs.parameters(), lr=RATE, momentum=0.9))):
            schedule = self.cycles(optimizer)
            for step in range(6):
                self.train(model, optimizer, 1)
                schedule.step()
            self.assertLess(optimizer.param_groups[0]["momentum"], 0.95)
        cases.close(self, [p.detach() for p in ours.parameters()], [p.detach() for p in theirs.parameters()], 2e-5)

    def test_what_servers_have_from_the_join_cannot_be_changed(self):
        model = cases.make()
        self.cycles(self.optimizer(model, "adam"), cycle_momentum=False)
        self.assertRaisesRegex(ValueError, "momentum", self.cycles, self.optimizer(model, "sgd"))
        optimizer = self.optimizer(model, "adam")
        self.cycles(optimizer)
        with self.assertRaisesRegex(phub.Error, r"^betas: changed from \(0.9, 0.999\).*cycle_momentum=False"):
            self.train(model, optimizer, 1)
        for name, value in (("eps", 1e-3), ("weight_decay", 0.1), ("amsgrad", True), ("momentum", 0.9)):
            model = cases.make()
            optimizer = self.optimizer(model, "adam")
            optimizer.param_groups[0][name] = value
            with self.subTest(name), self.assertRaisesRegex(phub.Error, f"^{name}: "):
                self.train(model, optimizer, 1)

    def test_defaults_are_pytorchs(self):
        options = dict(foreach=True, fused=False, amsgrad=False, maximize=False)
        self.is_torchs(rule="adamw", kind=torch.optim.AdamW, bound=1e-4, **options)
        self.is_torchs(rule="adamw", kind=torch.optim.AdamW, bound=1e-4, weight_decay=0.3,
                       torchs={"lr": RATE, "weight_decay": 0.3})
        self.is_torchs(rule="adagrad", kind=torch.optim.Adagrad, bound=1e-4, lr_decay=0)
        optimizer = self.optimizer(cases.make(), "adam")
        self.assertEqual({name: value for name, value in optimizer.param_groups[0].items() if name != "params"},
                         dict(lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0))

    def test_arguments_of_pytorchs_that_change_a_step(self):
        model = cases.make()
        for rule, options, message in (
                ("adam", {"amsgrad": True}, "amsgrad: .*ddp_hook"), ("adamw", {"maximize": True}, "maximize: "),
                ("momentum", {"momentum": 0.9, "dampening": 0.1}, "dampening: "), ("adagrad", {"lr_decay": 0.1}, "lr_decay: "),
                ("momentum", {"momentum": 0.9, "nesterov": True}, 'nesterov: .*choose rule "nesterov"'),
                ("nesterov", {"momentum": 0.0}, "momentum: rule \"nesterov\" needs one"),
                ("adam", {"decoupled_weight_decay": True}, 'choose rule "adamw"'), ("adam", {"eps": 0.0}, "eps: 0 cannot"),
                ("sgd", {"push": "later"}, 'push: "later" is neither'),
                ("sgd", {"push": "step", "accumulate": 2}, "accumulate: has no effect")):
            with self.subTest(rule=rule, **options), self.assertRaisesRegex(phub.Error, message):
                self.optimizer(model, rule=rule, **options)
        with self.assertRaisesRegex(phub.Error, "amsgrad: "):
            phub.torch.Optimizer([{"params": model.parameters(), "amsgrad": True}], rule="adam", lr=RATE,
                                 servers=self.server.control, workers=1)

    # ---- Models in files ----

    def test_a_model_is_kept_whole(self):
        model = torch.nn.Sequential(torch.nn.Linear(20, 5))
        optimizer = self.optimizer(model, model=model)
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        whole = {} if torch.__version__.startswith("1.") else {"weights_only": False}
        for other in (torch.load(file, **whole), copy.deepcopy(model)):
            self.train(model, optimizer, 1)
            optimizer.synchronize()
            x = torch.ones(2, 20)
            self.assertEqual(other(x).shape, (2, 5))
            self.assertFalse(torch.equal(other[0].weight, model[0].weight))


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))
