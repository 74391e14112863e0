"""phubrun over racks: each rank at its own rack's servers, one job over all. Usage: launch_racks_test.py LIBRARY BIN"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import launched
from launched import DEADLINE, ROOT, environment, phubrun, processes, program, temporary_folder
from phub.launch import _racks
from phub.launch._places import Place
from racks import RacksTest

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "PHUB_RACKS", "PHUB_SERVERS")
SAYS = f"import os; print(*(os.environ[name] for name in {NAMES}))"
EXCHANGES = """import array, phub, sys
index = {} if "chosen" in sys.argv else {"worker_index": phub.rank()}
with phub.Client(phub.Options(workers=phub.world_size(), rule="sum", **index)) as client:
    client.register_keys([phub.Key("w", 4)])
    memoryview(client.gradient("w")).cast("B").cast("f")[:] = array.array("f", [1.0] * 4)
    client.push_pull("w")
    print(list(memoryview(client.parameter("w")).cast("B").cast("f")))
with phub.Client(phub.Options(job=f"own-{phub.rank()}")) as own:  # a job of one worker is in its rack alone
    own.register_keys([phub.Key("w", 1)])
    own.push_pull("w")
"""
# What another run with the same racks differs in is in OPTIONS. Each rank says its bits, and what went over the uplinks.
TRAINS = """import hashlib, json, os, subprocess, torch, phub, phub.torch
torch.manual_seed(phub.rank())
model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.Tanh(), torch.nn.Linear(128, 8))
optimizer = phub.torch.Optimizer(model.named_parameters(), rule="momentum", lr=0.05, momentum=0.9,
                                 **json.loads(os.environ["OPTIONS"]))
for _ in range(8):
    optimizer.zero_grad()
    (model(torch.randn(16, 128)) - 1).square().mean().backward()
    optimizer.step()
bits = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).hexdigest()
job = os.environ["PHUB_JOB"] + "-optimizer"
said = subprocess.run([os.environ["PHUBCTL"], "--server", os.environ["PHUB_SERVERS"].split(",")[0], "--json", "job", "inspect", job],
                      stdout=subprocess.PIPE, check=True).stdout
shown = json.loads(said)["job"]
print(json.dumps({"bits": bits, "rack": shown["rack"], "up": sum(link["bytes_up_sent"] for link in shown["rack_links"])}))
"""
KEEPS = """import pathlib, torch, phub.torch
model = torch.nn.Linear(128, 128)
optimizer = phub.torch.Optimizer(model.named_parameters(), rule="momentum", lr=0.1, momentum=0.9, **options)
model(torch.ones(128)).sum().backward()
optimizer.step()
state = optimizer.state_dict()
servers = [each.rpartition(" at ")[2] for each in state["snapshot"]]
try:
    exported = phub.torch.export_state(state, dict(zip(servers, folders)))
    assert all((each["momentum_buffer"] == 1).all() for each in exported["state"].values()), exported
    print("exported")
except phub.Error as error:
    print(error)
optimizer.close()
"""
GROUPS = """import torch, torch.distributed as dist, phub.torch.distributed
from torch.nn.parallel import DistributedDataParallel
import phub.torch
dist.init_process_group(backend)
rank, size = dist.get_rank(), dist.get_world_size()
for ranks in (range(size), (0, 1), (0, size - 1)):  # in both racks, in one, a part of both
    group = dist.new_group(ranks)
    if rank in ranks:
        model = DistributedDataParallel(torch.nn.Linear(9, 3), process_group=group)
        if backend == "gloo":
            model.register_comm_hook(None, phub.torch.ddp_hook(group))
        for _ in range(3):
            model.zero_grad()
            model(torch.full((2, 9), float(rank))).sum().backward()
        mean = 2 * sum(ranks) / len(ranks)
        assert (model.module.weight.grad == mean).all(), (ranks, mean, model.module.weight.grad)
total = torch.ones(70_000)
dist.all_reduce(total)
assert (total == size).all() or backend == "gloo"
dist.barrier()
print("well")
"""


def racks_of(done):
    """What SAYS printed, by rank."""
    lines = sorted(re.findall(r"^\[(\d)\] \1 (.*)$", done.stdout, re.M))
    return [line.split() for _, line in lines]


class LaunchRacksTest(unittest.TestCase):
    def run_to_its_end(self, *words, **more):
        return subprocess.run(phubrun(*words), env=environment(**more), capture_output=True, text=True, timeout=DEADLINE)

    def run_well(self, *words, **more):
        done = self.run_to_its_end(*words, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def test_what_workers_find(self):
        done = self.run_well("-n", 5, "--racks", "near,site1/far", "--servers", 2, *program(SAYS), PHUB_RACKS="old:1")
        found = racks_of(done)
        self.assertEqual([each[:3] for each in found], [[str(rank), "5", "near:3,site1/far:2"] for rank in range(5)])
        near, far = found[0][3], found[3][3]
        self.assertEqual([each[3] for each in found], [near] * 3 + [far] * 2)
        addresses = [*near.split(","), *far.split(",")]
        self.assertEqual(len(set(addresses)), 4)
        for address in addresses:
            self.assertRegex(address, r"^127\.0\.0\.1:\d+$")

    def test_hosts_are_dealt_out_in_order(self):
        hosts = [Place(f"host{index}", index + 1, [], "") for index in range(5)]
        self.assertEqual(_racks.racks_of(["a", "b"], hosts), [("a", 6, [0, 1, 2]), ("b", 9, [3, 4])])
        self.assertEqual(_racks.racks_of([], hosts), [("", 15, [0, 1, 2, 3, 4])])
        self.assertEqual(_racks.racks_of(["a", "b"], hosts[4:]), [("a", 3, [0]), ("b", 2, [0])])
        own = [place._replace(rack=rack) for place, rack in zip(hosts, "aabbb")]
        self.assertEqual(_racks.racks_of(["a", "b"], own), [("a", 3, [0, 1]), ("b", 12, [2, 3, 4])])

    def test_without_racks_there_are_none(self):
        """What the environment says of another run does not go on."""
        done = self.run_well("--server", "none:1", *program("import os; print([os.environ['PHUB_RACKS']])"), PHUB_RACKS="a:1,b:1")
        self.assertEqual(done.stdout, "[0] ['']\n")

    def test_clients_are_in_their_racks(self):
        for order in ("given", "chosen"):
            done = self.run_well("-n", 3, "--racks", 2, *program(EXCHANGES), order)
            self.assertEqual(sorted(done.stdout.splitlines()), [f"[{rank}] [3.0, 3.0, 3.0, 3.0]" for rank in range(3)])

    def train(self, **options):
        """What each rank says."""
        done = self.run_well("-n", 4, "--racks", "a,b", *program(TRAINS), OPTIONS=json.dumps(options),
                             PHUBCTL=str(processes.BIN / "phubctl"))
        said = [json.loads(line) for _, line in sorted(re.findall(r"^\[(\d)\] (\{.*)$", done.stdout, re.M))]
        self.assertEqual([each["rack"] for each in said], ["a", "a", "b", "b"])
        self.assertEqual(len({each["bits"] for each in said}), 1, said)
        for each in said:
            self.assertGreater(each["up"], 0)
        return said[0]

    def test_an_optimizers_job_is_over_all_racks(self):
        if not has_torch():
            self.skipTest("needs PyTorch")
        plain = self.train()
        self.assertEqual(self.train(), plain)
        compressed = self.train(rack_compress={"density": 0.02})
        self.assertLess(compressed["up"], plain["up"] / 4)
        local = self.train(rack_local_steps=4, rack_outer_momentum=0.5, encoding="int8")
        self.assertLess(local["up"], plain["up"] / 2)
        rounded = self.train(rack_wire_type="bf16", rack_shape="chain", encoding="sparse", compress={"density": 0.25})
        self.assertEqual(len({each["bits"] for each in (plain, compressed, local, rounded)}), 4)

    def test_phub_worker_by_the_script_for_slurm(self):
        folder = temporary_folder(self)
        done = self.run_well("-n", 2, "--racks", "a,b", ROOT / "deploy/slurm/worker.sh", ROOT / "configs/mnist.textproto",
                             folder / "trained.safetensors", "--max-steps", 20, PATH=f"{processes.BIN}:{os.environ['PATH']}")
        self.assertIn("[0] test accuracy ", done.stdout)
        self.assertTrue((folder / "trained.safetensors").exists())

    def test_each_server_has_a_folder_of_its_own_for_snapshots(self):
        if not has_torch():
            self.skipTest("needs PyTorch")
        # torch.optim's state is in each snapshot or, of racks that have a part each, in none.
        for options, said in (({}, "export_state: the job is over racks a, site1/b, and each rack has the state of a part"),
                              ({"rack_local_steps": 1}, "export_state: .* each rack has a state of its own"),
                              ({"rack_compress": {"density": 1.0}}, "exported")):
            folder = temporary_folder(self)
            folders = [str(folder / name) for name in ("server-a", "server-site1+b")]
            done = self.run_well("-n", 2, "--racks", "a,site1/b", f"--server-options=--state {folder}/{{server}} --tokens off",
                                 *program(f"folders, options = {folders!r}, {options!r}\n{KEEPS}"))
            self.assertEqual(len(re.findall(rf"^\[[01]\] {said}", done.stdout, re.M)), 2, done.stdout)
            for each in folders:
                self.assertEqual(len(list(pathlib.Path(each, "snapshots").rglob("*.safetensors"))), 1)

    def test_process_groups_over_racks(self):
        if not has_torch():
            self.skipTest("needs PyTorch")
        for backend in ("phub", "gloo"):
            with self.subTest(backend):
                done = self.run_well("-n", 3, "--racks", 2, *program(f"backend = {backend!r}\n{GROUPS}"))
                self.assertEqual(sorted(done.stdout.splitlines()), [f"[{rank}] well" for rank in range(3)])

    def test_what_contradicts_racks_is_told_by_each_worker(self):
        done = self.run_to_its_end("-n", 2, "--racks", "a,b", *program(
            "import phub; phub.Client(phub.Options(workers=2, order='arrival', rounds={'quorum': 1, 'late': 'add'}))"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("rounds.quorum: 1 contradicts racks: a:1,b:1", done.stderr)

    def test_what_environment_names_no_racks(self):
        done = self.run_to_its_end("-n", 1, "--server", "none:1", *program(
            "import os, phub; os.environ['PHUB_RACKS'] = 'a,b'; phub.Client(phub.Options(workers=2))"))
        self.assertIn("the environment's PHUB_RACKS is \"a,b\", which is not RACK:WORKERS,RACK:WORKERS", done.stderr)

    def test_a_server_of_a_rack_that_fails_is_named(self):
        program_of = temporary_folder(self) / "server"
        program_of.write_text("#!/bin/sh\ncase \"$*\" in *'--rack site1/b '*) echo cannot; exit 3;; esac\n"
                              f"exec {processes.BIN}/phub-server \"$@\"\n")
        program_of.chmod(0o755)
        folder = temporary_folder(self)
        done = self.run_to_its_end("-n", 2, "--racks", "a,site1/b", "--server-program", program_of, "--output", folder, "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("phubrun: server site1/b did not start: cannot", done.stderr)
        self.assertEqual((folder / "server-site1+b.log").read_text(), "cannot\n")

    def test_wrong_usage_is_told_with_its_cure(self):
        for words, why in ((["--racks", "1"], "--racks: racks are 2 to 256, not 1; leave it out for one"),
                           (["--racks", "257"], "--racks: racks are 2 to 256, not more"),
                           (["--racks", "a,a"], "--racks: rack a is there twice"),
                           (["--racks", "a,-b"], '--racks: "-b" is no name of a rack'),
                           (["-n", "2", "--racks", "3"], "rack rack2 has no worker: of 2 on 1 hosts, none is left for it"),
                           (["-H", "h1,h2", "--racks", "a,b,c"], "rack c has no worker: of 2 on 2 hosts"),
                           (["--rack", "a=h1"], "--rack: racks are 2 to 256, not 1"),
                           (["--rack", "a=h1", "--rack", "b"], '--rack: "b" is not RACK=...'),
                           (["--rack", "a=h1", "--rack", "b=h2,h1"], "--rack b: h1 is in rack a already; a host is in one rack"),
                           (["--rack", "a=h1:2", "--rack", "b=h2", "-n", "2"], "rack b has no worker"),
                           (["--rack", "a=h1", "--rack", "b=h2", "--racks", "2"], "--racks: contradicts --rack"),
                           (["--rack", "a=h1", "-H", "h2"], "argument -H/--hosts: not allowed with argument --rack"),
                           (["--racks", "2", "--server", "h:1"], "--server: the run's racks are rack0, rack1; name the servers of each"),
                           (["--racks", "a,b", "--server", "a=h:1", "--server", "c=h:2"], "--server: the run's racks are a, b;"),
                           (["--server", "h:1", "--server", "h:2"], "--server: is there twice"),
                           (["--server", "a=h:1", "--server", "b=h"], '--server: "h" is not HOST:PORT'),
                           (["--racks", "2", "--server-options=--credentials pki/server"],
                            "--server-options: the racks' servers show each other a certificate; add --rack-credentials FOLDER"),
                           (["-x", "PHUB_RACKS=a:1", "--racks", "2"], "-x: PHUB_RACKS is phubrun's to say")):
            with self.subTest(words):
                done = self.run_to_its_end(*words, "true")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(why, done.stderr)
        done = self.run_to_its_end("-n", 2, "--racks", 2, "true", PHUB_SERVERS="127.0.0.1:1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("PHUB_SERVERS of the environment names one rack's servers; name each rack's by --server", done.stderr)


class RunningServersTest(RacksTest):
    def test_running_servers_of_each_rack(self):
        """Racks have the servers' names, and the workers are dealt out to them."""
        self.start_racks("ab")
        (a,), (b,) = self.addresses["a"], self.addresses["b"]
        done = subprocess.run(phubrun("-n", 3, "--server", f"a={a}", "--server", f"b={b}", *program(SAYS + "\n" + EXCHANGES)),
                              env=environment(), capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([each[2:] for each in racks_of(done)], [["a:2,b:1", a], ["a:2,b:1", a], ["a:2,b:1", b]])
        self.assertEqual(done.stdout.count("[3.0, 3.0, 3.0, 3.0]"), 3)


def has_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    for name in ("PHUB_JOB", "PHUB_RACKS", "PHUB_SERVERS", "PHUB_SERVER_OPTIONS"):
        os.environ.pop(name, None)
    unittest.main(argv=launched.main(globals()))
