"""phub.torch.Optimizer: its state in the servers' snapshots, and GradScaler. Usage: optimizer_state_test.py LIBRARY BIN"""
import concurrent.futures
import copy
import sys
import types
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

STEPS = 6
RATE = 0.05


class Scaler:
    """What an optimizer sees of a torch.cuda.amp.GradScaler, which without a GPU is switched off before PyTorch 2.3."""

    def __init__(self, scale=1024.0):
        self.value = scale
        self._per_optimizer_states = {}

    def scale(self, loss):
        return loss * self.value

    def get_scale(self):
        return self.value

    def unscale_(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad.div_(self.value)
        self._per_optimizer_states[id(optimizer)] = {"found_inf_per_device": {}, "stage": types.SimpleNamespace(name="UNSCALED")}

    def step(self, optimizer):
        self._per_optimizer_states.setdefault(id(optimizer), {"found_inf_per_device": {}})
        return optimizer.step(grad_scaler=self)

    def found(self, optimizer):
        (value,) = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
        return value.item() > 0

    def update(self, optimizer):
        if self.found(optimizer):
            self.value /= 2
        del self._per_optimizer_states[id(optimizer)]


KINDS = ["as seen"] + (["PyTorch's"] if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler") else [])


def scaler_of(kind):
    if kind == "as seen":
        return Scaler()
    return torch.amp.GradScaler("cpu", init_scale=1024.0, backoff_factor=0.5, growth_interval=1000)


def update(scaler, optimizer):
    scaler.update(optimizer) if isinstance(scaler, Scaler) else scaler.update()


def scaled(folder, kind, mode):
    """In step 2 one gradient of rank 1 is infinite: nobody makes the step, and both halve the scale."""
    model = cases.make()
    overlap = {"model": model} if mode == "overlap" else {}
    encoded = {"encoding": "int8"} if mode == "encoded" else {}
    optimizer = phub.torch.Optimizer(model.named_parameters(), rule="sgd", lr=RATE, loss_scaling="voted", **overlap, **encoded)
    scaler = scaler_of(kind)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = cases.loss_of(model, cases.part(step))
        if step == 2 and cases.RANK == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        update(scaler, optimizer)
        assert scaler.get_scale() == (1024.0 if step < 2 else 512.0), (step, scaler.get_scale())
    optimizer.close()
    cases.keep(model, folder)


class ScalingTest(unittest.TestCase):
    def test_one_overflow_leaves_the_step_out_for_all(self):
        model = cases.make()
        for step in (step for step in range(STEPS) if step != 2):
            cases.mean_gradients(model, step, 2)
            with torch.no_grad():
                for p in model.parameters():
                    p.sub_(RATE * p.grad)
        for kind in KINDS:
            for mode in ("waits in step", "overlap", "encoded"):
                with self.subTest(kind, mode=mode):
                    folder = temporary_folder(self)
                    for status, _, error in together(self, scaled, folder, kind, mode):
                        self.assertEqual(status, 0, error)
                    cases.same_bits(self, cases.kept(folder, 0), cases.kept(folder, 1))
                    cases.close(self, cases.kept(folder, 0), [p.detach() for p in model.parameters()],
                                1e-3 if mode == "encoded" else 2e-6)  # the last residual

    def test_a_job_that_votes_wants_a_scaler(self):
        server = Server(cores=1)
        self.addCleanup(server.close)
        model = cases.make()
        optimizer = phub.torch.Optimizer(model.named_parameters(), rule="sgd", lr=RATE, loss_scaling="voted",
                                         servers=server.control, workers=1, worker_index=0)
        cases.loss_of(model, cases.batch(0)).backward()
        with self.assertRaisesRegex(phub.Error, "loss_scaling: .*scaler.step"):
            optimizer.step()
        Scaler().step(optimizer)
        optimizer.close()


    def test_gradients_that_are_unscaled_and_clipped(self):
        server = Server(cores=1)
        self.addCleanup(server.close)
        for kind in KINDS:
            with self.subTest(kind):
                self.unscale_and_clip(kind, server)

    def unscale_and_clip(self, kind, server):
        def optimizer_of(network, **options):
            return phub.torch.Optimizer(network.named_parameters(), rule="sgd", lr=RATE, loss_scaling="voted", servers=server.control,
                                        workers=1, worker_index=0, **options)

        ours, theirs = cases.make(), cases.make()
        optimizer, plain, scaler = optimizer_of(ours, push="step"), torch.optim.SGD(theirs.parameters(), lr=RATE), scaler_of(kind)
        for step in range(STEPS):
            optimizer.zero_grad()
            scaler.scale(cases.loss_of(ours, cases.batch(step))).backward()
            if step != 2:  # between, it is the servers that divide by the scale
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(ours.parameters(), 0.1)
            scaler.step(optimizer)
            update(scaler, optimizer)
            plain.zero_grad()
            cases.loss_of(theirs, cases.batch(step)).backward()
            if step != 2:
                torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.1)
            plain.step()
        optimizer.close()
        cases.close(self, [p.detach() for p in ours.parameters()], [p.detach() for p in theirs.parameters()], 2e-6)

        optimizer, scaler = optimizer_of(ours), scaler_of(kind)
        scaler.scale(cases.loss_of(ours, cases.batch(0))).backward()
        scaler.unscale_(optimizer)
        with self.assertRaisesRegex(phub.Error, "unscale_ came after backward.*push=\"step\".*clip_norm"):
            scaler.step(optimizer)
        optimizer.close()


class StateTest(unittest.TestCase):
    def setUp(self):
        self.server, self.folder = self.server_with_folder()

    def server_with_folder(self):
        folder = temporary_folder(self)
        config = folder / "server.textproto"
        config.write_text(f'cores: 1 state_folder: "{folder}/state"')
        server = Server("--config", config)
        self.addCleanup(server.close)
        return server, folder / "state"

    def optimizer(self, network, job):
        made = phub.torch.Optimizer(network.named_parameters(), rule="adamw", lr=RATE, weight_decay=0.01, job=job,
                                    servers=self.server.control, workers=1, worker_index=0)
        self.addCleanup(lambda: made._client and made._client.close())
        return made

    def train(self, model, optimizer, steps):
        for step in steps:
            cases.loss_of(model, cases.batch(step)).backward()
            optimizer.step()
            optimizer.zero_grad()

    def test_training_goes_on_with_the_same_bits(self):
        model = cases.make()
        optimizer = self.optimizer(model, "first")
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        for step in range(3):
            self.train(model, optimizer, [step])
            schedule.step()
        state = optimizer.state_dict()
        self.assertEqual(state["steps"], 3)
        rate = optimizer.param_groups[0]["lr"]
        for step in range(3, STEPS):
            self.train(model, optimizer, [step])
        expected = [p.detach().clone() for p in model.parameters()]

        other = cases.make()
        fresh = self.optimizer(other, "fresh")
        with self.assertRaisesRegex(phub.Error, "of step 3.*job has 0 steps.*phubctl restore .*--as JOB --server"):
            fresh.load_state_dict(state)
        with self.assertRaisesRegex(phub.Error, "no state of"):
            fresh.load_state_dict({"param_groups": []})
        fresh.close()
        (file,) = (each.split(" at ")[0] for each in state["snapshot"])
        self.server.ctl("restore", file, "--as", "again")
        again = self.optimizer(other, "again")
        again.load_state_dict(state)
        self.assertEqual(again.param_groups[0]["lr"], rate)
        self.train(other, again, range(3, STEPS))
        cases.same_bits(self, [p.detach() for p in other.parameters()], expected)
        with self.assertRaisesRegex(phub.Error, "3 steps from a snapshot and 3 since"):
            again.load_state_dict(state)

    # By rule: torch.optim's, its arguments, and those of ours.
    MOVED = {"adamw": (torch.optim.AdamW, {}, {}), "adagrad": (torch.optim.Adagrad, {}, {}),
             "nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}, {"momentum": 0.9})}

    def train_both(self, models, optimizers, steps):
        """Two workers, each a thread."""
        def train(rank):
            for step in steps:
                optimizers[rank].zero_grad()
                cases.loss_of(models[rank], cases.part(step, rank, 2)).backward()
                optimizers[rank].step()

        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            list(threads.map(train, range(2)))

    def join_both(self, models, rule, job, options):
        def join(rank):
            return phub.torch.Optimizer(models[rank].named_parameters(), rule=rule, lr=RATE, job=job, workers=2, worker_index=rank,
                                        servers=list(self.folders), chunk_bytes=4096, **options)

        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            return list(threads.map(join, range(2)))

    def test_state_moves_in_from_torch_and_out_again(self):
        """One worker with torch.optim, then two with two servers, which have parts of keys, then one again."""
        other, folder = self.server_with_folder()
        self.folders = {self.server.control: self.folder, other.control: folder}
        for rule, (kind, torchs, options) in self.MOVED.items():
            with self.subTest(rule):
                model = cases.make()
                model.norm.weight.requires_grad_(False)  # is counted, and has no state
                plain = kind(model.parameters(), lr=RATE, **torchs)
                self.train(model, plain, range(2))
                models = [copy.deepcopy(model) for _ in range(2)]
                pattern = self.join_both(models, rule, f"pattern-{rule}", options)
                plain.param_groups[0]["lr"] = RATE / 2
                state = phub.torch.import_state(pattern[1].state_dict(), self.folders, copy.deepcopy(plain.state_dict()),
                                                model.state_dict(), name=rule)
                with self.assertRaisesRegex(phub.Error, "torch.optim.*import_state"):
                    pattern[0].load_state_dict(plain.state_dict())
                for each in pattern:
                    each.close()
                for server, file in zip((self.server, other), state["snapshot"]):
                    self.assertIn(b'"first.weight[', (self.folders[server.control] / "snapshots" / file.split(" at ")[0]).read_bytes())
                    server.ctl("restore", file.split(" at ")[0], "--as", rule)
                optimizers = self.join_both(models, rule, rule, options)
                for each in optimizers:
                    each.load_state_dict(state)
                self.train_both(models, optimizers, range(2, 4))
                state = optimizers[0].state_dict()
                for each in optimizers:
                    each.close()
                self.train(model, plain, range(2, 4))
                cases.same_bits(self, list(models[0].parameters()), list(models[1].parameters()))
                cases.close(self, list(models[0].parameters()), list(model.parameters()), 1e-3)

                models[0].zero_grad()
                last = kind(models[0].parameters(), lr=RATE, **torchs)
                last.load_state_dict(phub.torch.export_state(state, self.folders))
                self.assertEqual(last.param_groups[0]["lr"], RATE / 2)
                self.train(models[0], last, range(4, STEPS))
                self.train(model, plain, range(4, STEPS))
                cases.close(self, list(models[0].parameters()), list(model.parameters()), 1e-3)

    def test_state_that_does_not_fit_or_is_damaged(self):
        model = cases.make()
        optimizer = self.optimizer(model, "fits")
        self.train(model, optimizer, range(2))
        state = optimizer.state_dict()
        exported = phub.torch.export_state(state, self.folder)
        exported["state"][0]["step"] = torch.tensor(9.0)
        with self.assertRaisesRegex(phub.Error, "different numbers of steps .2 to 9."):
            phub.torch.import_state(state, self.folder, exported, model.state_dict())
        exported = phub.torch.export_state(state, {self.server.control: self.folder})
        with self.assertRaisesRegex(phub.Error, "parameters has no first.weight"):
            phub.torch.import_state(state, self.folder, exported, {})
        del exported["state"][1]["exp_avg"]
        with self.assertRaisesRegex(phub.Error, "first.bias has no exp_avg"):
            phub.torch.import_state(state, self.folder, exported, model.state_dict())
        with self.assertRaisesRegex(phub.Error, "folders: none for server"):
            phub.torch.export_state(state, {})
        with self.assertRaisesRegex(phub.Error, "cannot be read: No such file.*state_folder"):
            phub.torch.export_state(state, self.folder / "other")
        (file,) = (self.folder / "snapshots" / each.split(" at ")[0] for each in state["snapshot"])
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        with self.assertRaisesRegex(phub.Error, "another checksum.*damaged"):
            phub.torch.export_state(state, self.folder)

    def test_between_backward_and_step(self):
        model = cases.make()
        optimizer = self.optimizer(model, "early")
        cases.loss_of(model, cases.batch(0)).backward()
        with self.assertRaisesRegex(phub.Error, "state_dict: backward has pushed.*after step"):
            optimizer.state_dict()


class WithoutFolderTest(unittest.TestCase):
    def test_servers_that_keep_nothing_say_so(self):
        server = Server(cores=1)
        self.addCleanup(server.close)
        model = cases.make()
        optimizer = phub.torch.Optimizer(model.named_parameters(), rule="sgd", lr=RATE, servers=server.control, workers=1)
        with self.assertRaisesRegex(phub.Error, "state_folder"):
            optimizer.state_dict()
        optimizer.close()


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))
