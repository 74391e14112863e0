#!/usr/bin/env python3
"""Whole jobs over RDMA; run where there are two devices. Usage: system_test.py BIN_DIRECTORY"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import processes  # noqa: E402
from processes import JobTest  # noqa: E402

processes.BIN = pathlib.Path(sys.argv.pop(1))
# Software RDMA in an emulated machine is slow; these only bound a failure.
processes.DEADLINE = DEADLINE = 240
FOLDER = tempfile.TemporaryDirectory()
# Small steps: the processor is emulated.
processes.CONFIG = pathlib.Path(FOLDER.name) / "lenet.textproto"
processes.CONFIG.write_text("""
model { name: "lenet" }
data { format: "synthetic" synthetic_images: 64 }
optimizer { learning_rate: 0.01 }
train { batch: 4 epochs: 100000 evaluate: false }
""")


class PatientSystem(JobTest):
    server_options = ("--transports", "shm", "tcp", "verbs", *processes.PATIENT)

    def test_a_killed_worker_is_named_and_the_next_job_runs(self):
        self.start(2, "verbs", "--job", "killed")
        self.wait_for_rounds(10)
        self.workers[1].kill()
        _, error = self.workers[0].communicate(timeout=DEADLINE)
        self.assertEqual(self.workers[0].returncode, 1, error)
        self.assertIn("worker 1", error)
        self.end_workers()
        self.launch(2, "verbs", "--job", "next", "--max-steps", "2")
        self.finish()


class System(JobTest):
    server_options = ("--transports", "shm", "tcp", "verbs")

    def test_sums_are_exact_over_two_devices(self):
        out = subprocess.run(
            [processes.BIN / "phub-bench", "exchange", "--transport", "verbs", "--workers", "2",
             "--server-cores", "2", "--elements", "300000", "--iterations", "4", "--blocks", "2",
             "--json"], capture_output=True, text=True, timeout=DEADLINE, check=True).stdout
        line = json.loads(out.splitlines()[0])
        self.assertEqual((line["system"], line["transport"]), ("phub", "verbs"))
        self.assertTrue(line["verified"])

    def test_training_has_the_same_bits_as_over_tcp(self):
        bits = set()
        for transport in ("verbs", "tcp"):
            path = pathlib.Path(FOLDER.name) / transport
            self.launch(2, transport, "--job", transport, "--max-steps", "5",
                        "--checkpoint", str(path))
            self.finish()
            bits.add(path.read_bytes())
        self.assertEqual(len(bits), 1)

    def test_two_joined_racks_have_the_same_bits_as_over_tcp(self):
        bits = {self.joined_bits(transport) for transport in ("verbs", "tcp")}
        self.assertEqual(len(bits), 1)

    def joined_bits(self, transport):
        """Of a training whose racks, of a server and a worker each, are joined by the transport."""
        ports = dict(zip("ab", (processes.free_port(), processes.free_port())))
        folder = pathlib.Path(FOLDER.name)
        servers = []
        for rack, port in ports.items():
            config = folder / f"server-{rack}.textproto"
            known = "".join(f'racks {{ name: "{name}" servers: "127.0.0.1:{other}" }}\n'
                            for name, other in ports.items())
            config.write_text(f'rack: "{rack}"\ncontrol_address: "127.0.0.1:{port}"\n'
                              f'rack_transport: "{transport}"\ndirectory {{ {known} }}\n')
            servers.append(processes.Server("--config", config, *self.server_options,
                                            control=f"127.0.0.1:{port}"))
            self.addCleanup(servers[-1].close)
        checkpoint = folder / f"joined-{transport}"
        self.workers = [processes.worker(server, index, 2, "tcp", "--job", "joined", "--racks",
                                         "a:1,b:1", "--max-steps", "5",
                                         *(("--checkpoint", checkpoint) if index == 0 else ()))
                        for index, server in enumerate(servers)]
        self.finish()
        return checkpoint.read_bytes()

    def test_a_device_that_goes_down_ends_the_job_and_not_the_server(self):
        self.start(2, "verbs", "--job", "cut")
        self.wait_for_rounds(10)
        subprocess.run(["ip", "link", "set", "rdma0", "down"], check=True)
        try:
            for process in self.workers:
                _, error = process.communicate(timeout=DEADLINE)
                self.assertEqual(process.returncode, 1, error)
        finally:
            subprocess.run(["ip", "link", "set", "rdma0", "up"], check=True)
        self.end_workers()
        self.launch(2, "tcp", "--job", "after", "--max-steps", "2")
        self.finish()

    def test_members_show_their_transport(self):
        self.start(1, "verbs", "--job", "shown")
        member, = self.server.ctl("job", "inspect", "shown")["job"]["members"]
        self.assertEqual(member["transport"], "verbs")
        # It is told with the start, which the job's running may come before.
        processes.until(lambda: "as asked for" in self.server.text("job", "inspect", "shown"),
                        "the reason is shown")
        self.ports_carry_the_job()
        self.the_plan_names_the_ports()
        self.assertIn("transparent ones", self.server.table("job", "inspect", "shown"))

    def test_auto_takes_verbs_to_another_host(self):
        # A host is told by its boot id: this worker sees another one.
        boot_id = pathlib.Path(FOLDER.name) / "boot_id"
        boot_id.write_text("another host\n")
        elsewhere = ["unshare", "--mount", "sh", "-c",
                     f'mount --bind {boot_id} /proc/sys/kernel/random/boot_id && exec "$@"', "sh"]
        self.workers = [processes.worker(self.server, 0, 2, "auto", "--job", "far"),
                        processes.worker(self.server, 1, 2, "auto", "--job", "far",
                                         within=elsewhere)]
        processes.until(self.server.running, "the job runs")
        near, far = self.server.ctl("job", "inspect", "far")["job"]["members"]
        self.assertEqual((near["transport"], far["transport"]), ("shm", "verbs"))
        processes.until(lambda: "through its rxe" in self.server.text("job", "inspect", "far"),
                        "the reason is shown")
        self.wait_for_rounds(10)

    def test_rdma_memory_comes_from_the_pool_of_huge_pages(self):
        pool = pathlib.Path("/proc/sys/vm/nr_hugepages")
        pool.write_text("32")
        self.addCleanup(pool.write_text, "0")
        self.start(1, "verbs", "--job", "huge")
        job = self.server.ctl("job", "inspect", "huge")["job"]
        self.assertGreater(int(job["statistics"]["reserved_page_bytes"]), 1 << 20)
        self.assertIn("from the pool", self.server.table("job", "inspect", "huge"))

    def ports(self):
        return {p["device"]: p for p in self.server.ctl("server", "stats")["server"]["ports"]}

    def ports_carry_the_job(self):
        before = self.ports()
        self.assertEqual(sorted(before), ["rxe0", "rxe1"])
        self.assertEqual(sorted(p["cores"] for p in before.values()), [[0], [1]])
        for port in before.values():
            self.assertEqual((port["port"], port["link_layer"], port["state"], port["gid_type"]),
                             (1, "Ethernet", "active", "RoCE v2"))
            self.assertIn(port["gid"], ("::ffff:192.0.2.1", "::ffff:192.0.2.2"))
            self.assertGreater(port["mtu_bytes"], 0)
            self.assertNotIn("bytes_sent", port)  # Soft-RoCE counts packets only
        self.wait_for_rounds(10)
        after = self.ports()
        for device, port in after.items():
            for counter in ("packets_sent", "packets_received"):
                self.assertGreater(port[counter], before[device][counter], device)
            self.assertIn("rcvd_pkts", [c["name"] for c in port["counters"]])

    def the_plan_names_the_ports(self):
        plan = self.server.ctl("job", "plan", "shown")
        self.assertEqual(sorted(load["device"] for load in plan["loads"]), ["rxe0", "rxe1"])
        self.assertEqual(sum(load["chunks"] for load in plan["port_loads"]), len(plan["chunks"]))
        self.assertIn("rxe0/1", self.server.table("job", "plan", "shown"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
