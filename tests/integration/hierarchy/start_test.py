"""Jobs that span racks and do not start at once, or not at all: every worker learns for which rack.

Usage: start_test.py BIN
"""
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import until  # noqa: E402
from racks import RacksTest, all_of  # noqa: E402

TWO = "a:2,b:2"
THREE = "a:1,b:1,c:1"


class Start(RacksTest):
    def config_of(self, timeout_ms=30000):
        return self.config(timeout_ms=timeout_ms)

    def test_a_rack_that_comes_late_is_waited_for(self):
        self.lay_out("abc", more="heartbeat_deadline_ms: 5000\n")
        for rack in "ab":
            self.start_server(rack)
        config = self.config_of(60000)
        early = [self.start_worker("a", 0, THREE, "--max-steps", "4", config=config),
                 self.start_worker("b", 1, THREE, "--max-steps", "4", config=config)]
        until(lambda: "worker=rack:a" in self.log("b"), "they meet")
        # Longer than two heartbeat deadlines: those that are there keep in touch meanwhile.
        since = time.monotonic()
        until(lambda: time.monotonic() - since > 10.5, "it is late")
        self.assertEqual([process.poll() for process in early], [None, None])
        self.start_server("c")
        late = self.start_worker("c", 2, THREE, "--max-steps", "4", config=config)
        self.finish([*early, late])

    def test_a_rack_that_never_comes_is_named(self):
        self.lay_out()
        self.start_server("a")
        started = [self.start_worker("a", index, TWO, config=self.config_of(10000)) for index in range(2)]
        self.all_say(started, r"did not start within \d+ ms: rack b has not joined.*rack b \(127")

    def test_a_rack_whose_workers_never_come_is_named(self):
        self.start_racks()
        started = [self.start_worker("a", index, TWO, config=self.config_of(10000)) for index in range(2)]
        self.all_say(started, r"rack b \(.*\): .*none of that rack's own workers is ready yet")

    def test_a_racks_server_is_killed_while_others_wait(self):
        self.lay_out("abc")
        for rack in "ab":
            self.start_server(rack)
        config = self.config_of(6000)
        started = [self.start_worker("a", 0, THREE, config=config),
                   self.start_worker("b", 1, THREE, config=config)]
        until(lambda: "worker=rack:b" in self.log("a"), "b has joined")
        self.servers["b"][0].process.kill()
        self.all_say(started[:1], "rack [bc]")
        self.all_say(started[1:], self.addresses["b"][0])

    def test_a_rack_that_the_directory_has_not(self):
        self.lay_out()
        self.start_server("a", listed="a")
        self.start_server("b")
        self.all_say(self.start_job(TWO, config=self.config_of()),
                     r"racks\[1\].name: this server knows no rack .b., only a; take one")

    def test_a_job_without_the_servers_own_rack(self):
        self.start_racks()
        started = [self.start_worker("a", index, "x:2,b:2") for index in range(2)]
        self.all_say(started, "racks: this server is in rack a, and the job's racks are x, b")

    def test_workers_that_list_racks_differently(self):
        self.start_racks()
        config = self.config_of(4000)
        started = [self.start_worker("a", 0, "a:1,b:2", config=config),
                   self.start_worker("b", 1, "a:1,b:1", config=config),
                   self.start_worker("b", 2, "a:1,b:2", config=config)]
        self.all_say(started, "racks|workers")

    def differ(self, words, difference):
        """Rack b's worker comes with these words, once rack a has joined: both say what differs, long
        before the time to wait is over."""
        self.start_racks()
        racks, config = "a:1,b:1", self.config_of(600_000)
        waiting = self.start_worker("a", 0, racks, config=config)
        until(lambda: "worker=rack:a" in self.log("b"), "rack a has joined")
        self.all_say([self.start_worker("b", 1, racks, *words, config=config)], difference)
        self.all_say([waiting], rf"rack b: a worker \(host \S+, pid \d+\) was refused: {difference}")

    def test_a_rack_with_another_shape_is_told_everywhere(self):
        self.differ(["--rack-shape", "chain"], "rack_shape is spread in the job but chain in this join")

    def test_a_rack_with_another_wire_type_is_told_everywhere(self):
        self.differ(["--rack-wire-type", "bf16"],
                    "rack_wire_type is fp32 in the job but bf16 in this join")

    def test_a_worker_with_an_index_of_another_rack(self):
        self.start_racks()
        self.all_say([self.start_worker("b", 1, TWO)],
                     "worker_index: 1, allowed are 2 to 3 in rack b")

    def test_racks_with_different_numbers_of_servers(self):
        self.lay_out(servers=2)
        for rack in "ab":
            self.start_server(rack)
        self.start_server("a", 1)
        both, self.addresses["b"] = self.addresses["b"], self.addresses["b"][:1]
        config = self.config_of(4000)
        self.all_say(self.start_job("a:1,b:1", config=config), "racks have as many|cores_per_server|rack [ab]")
        self.addresses["b"] = both

    def lay_out_two(self, known_of_b):
        """Two racks of two servers, of which those of rack a know for rack b `known_of_b` of them."""
        self.lay_out(servers=2)
        for place in range(2):
            self.start_server("a", place, servers={"b": known_of_b(self.addresses["b"])})
            self.start_server("b", place)

    def test_while_a_server_is_missing_in_the_directory_no_other_is_taken_for_it(self):
        self.lay_out_two(known_of_b=lambda servers: servers[1:])
        started = [self.start_worker("a", 0, "a:1,b:1", config=self.config_of(10000)),
                   self.start_worker("b", 1, "a:1,b:1", config=self.config_of())]
        self.all_say(started, r"did not start within .* rack b \(unknown\): 1 of its servers are known, "
                              "this rack has 2 in the job")

    def test_directories_with_servers_in_different_orders(self):
        self.lay_out_two(known_of_b=lambda servers: servers[::-1])
        started = self.start_job("a:1,b:1", config=self.config_of())
        self.all_say(started["a"], r"server_index: ([01]), but .* is server [01] of rack b.*`phubctl racks`")
        self.all_say(started["b"], "rack a")

    def test_racks_with_snapshots_of_different_rounds(self):
        self.lay_out()
        for rack in "ab":
            self.start_server(rack, 0, "--state", self.folder / f"state-{rack}")
        one, other = (self.servers[rack][0] for rack in "ab")
        started = self.start_job("a:1,b:1", config=self.config_of())
        self.wait_until_it_trains()
        for _ in range(2):
            one.table("snapshot", "mnist", "--also", other.control)
        for process in all_of(started):
            process.send_signal(signal.SIGTERM)
        self.finish(started)
        snapshots = one.ctl("snapshots")["snapshots"]
        first, second = (snapshot["file"] for snapshot in snapshots)
        one.table("restore", first, "--as", "mixed")
        other.table("restore", second, "--as", "mixed")
        # Who is so late that its rack's job has failed already begins another one, alone.
        differ = r"rack [ab].* has \d+ rounds behind it there and \d+ in rack [ab]"
        said = self.errors(self.start_job("a:1,b:1", "--job", "mixed", config=self.config_of(5000)))
        self.assertRegex("".join(said), differ)
        for error in said:
            self.assertRegex(error, differ + "|did not start within")
        for server in (one, other):
            server.table("restore", second, "--as", "same")
        steps = str(int(snapshots[1]["round"]) + 3)
        self.finish(self.start_job("a:1,b:1", "--job", "same", "--max-steps", steps,
                                   config=self.config_of()))

    def test_a_worker_that_lists_its_servers_in_another_order_than_the_directory(self):
        self.start_racks(servers=2)
        self.addresses["a"].reverse()
        self.all_say([self.start_worker("a", 0, "a:1,b:1", config=self.config_of())],
                     "server_index: [01], but .* is server [01] of rack a.*`phubctl racks`")
        self.addresses["a"].reverse()
        self.finish(self.start_job("a:1,b:1", "--max-steps", "3", config=self.config_of()))


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)
