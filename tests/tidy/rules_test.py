"""Each rule of rules.py passes a tree that keeps it and fails one that breaks it."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import rules

CHECK_TREE = pathlib.Path(__file__).with_name("check_tree.py")


def broken(path, text=""):
    return rules.violations({path: text})


class RulesTest(unittest.TestCase):
    def accepts(self, path, text=""):
        self.assertEqual(broken(path, text), [])

    def refuses(self, path, text="", saying=""):
        found = broken(path, text)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(path), found[0])
        self.assertIn(saying, found[0])

    def test_layers_include_only_what_lies_below(self):
        for path, header in [("common/base/ring.h", "common/base/check.h"),
                             ("common/plan/plan.h", "common/base/dtype.h"),
                             ("common/transport/shm/a.cc", "common/transport/transport.h"),
                             ("kernels/reduce.h", "common/base/rule.h"),
                             ("kernels/cpu/reduce.cc", "kernels/reduce.h"),
                             ("server/core/core.cc", "common/transport/transport.h"),
                             ("server/core/core.cc", "kernels/reduce.h"),
                             ("server/plane/uplink.cc", "common/exchange/exchange.h"),
                             ("common/connect/a.cc", "common/rendezvous/membership.h"),
                             ("worker/main.cc", "worker/client/phub.h"),
                             ("bench/main.cc", "worker/client/phub.h"),
                             ("tests/unit/core_test.cc", "server/core/core.h")]:
            self.accepts(path, f'#include "{header}"\n')
        for path, header in [("common/base/ring.h", "common/plan/plan.h"),
                             ("common/base/ring.h", "kernels/reduce.h"),
                             ("common/transport/tcp/a.cc", "common/plan/plan.h"),
                             ("common/transport/tcp/a.cc", "kernels/reduce.h"),
                             ("common/plan/plan.cc", "server/core/core.h"),
                             ("common/plan/plan.cc", "common/transport/transport.h"),
                             ("common/plan/plan.cc", "common/exchange/exchange.h"),
                             ("common/exchange/a.cc", "common/rendezvous/membership.h"),
                             ("common/rendezvous/a.cc", "worker/client/phub.h"),
                             ("kernels/reduce.h", "common/plan/plan.h"),
                             ("kernels/cpu/reduce.cc", "server/core/core.h"),
                             ("server/core/core.cc", "worker/client/phub.h"),
                             ("worker/main.cc", "server/core/core.h"),
                             ("server/core/core.cc", "bench/harness.h"),
                             ("worker/main.cc", "tests/support/peers.h"),
                             ("bench/main.cc", "tests/support/peers.h")]:
            self.refuses(path, f'#include "{header}"\n', "may not include")
            self.refuses(path, f"  #  include <{header}>\n", "may not include")

    def test_our_headers_are_named_from_the_root(self):
        self.refuses("server/core/core.cc", '#include "core.h"\n', "path from the root")
        self.refuses("server/core/core.cc", '#include "../common/plan.h"\n', "path from the root")

    def test_rooms_do_not_overflow(self):
        files = {f"server/core/part{i}.h": "" for i in range(rules.ROOM_FILES_MAX)}
        self.assertEqual(rules.violations(files), [])
        files["server/core/one_more.cc"] = ""
        found = rules.violations(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn("server/core: 26 files", found[0])
        self.assertEqual(rules.violations({f"server/core/{i}.md": "" for i in range(30)}), [])

    def test_rooms_say_what_they_are(self):
        tree = {"server/core/core.cc": "", "tests/core/core_test.cc": ""}
        self.assertEqual(list(rules.readme_violations(tree)),
                         ["server/core: no README.md: say what lives there, who may come in and what was decided"])
        self.assertEqual(list(rules.readme_violations(tree | {"server/core/README.md": ""})), [])

    def test_rooms_do_not_include_each_other(self):
        def includes(*headers):
            return "".join(f'#include "{header}"\n' for header in headers)
        tree = {"server/core/core.h": includes("server/job/job.h"),
                "server/job/job.h": includes("server/state/store.h", "common/job/check.h"),
                "server/state/store.h": ""}
        self.assertEqual(rules.violations(tree), [])
        tree["server/state/store.cc"] = includes("server/core/core.h")
        found = rules.violations(tree)
        self.assertEqual(len(found), 1, found)
        self.assertIn("server/core -> server/job -> server/state -> server/core", found[0])
        self.assertIn("server/state/store.cc includes server/core/core.h", found[0])

    def test_libraries_stay_in_their_places(self):
        for header, inside, outside in [
                ("proto/config.pb.h", "common/config/config.cc", "common/plan/plan.cc"),
                ("grpcpp/server.h", "server/rpc/service.cc", "server/core/core.cc"),
                ("proto/control.grpc.pb.h", "common/rendezvous/rendezvous.cc", "worker/nn/ops.h"),
                ("google/protobuf/text_format.h", "common/config/check.h", "worker/train/a.cc"),
                ("infiniband/verbs.h", "common/transport/verbs/a.cc", "common/transport/a.cc"),
                ("prometheus/registry.h", "server/metrics/a.cc", "server/http/a.cc"),
                ("boost/beast/http.hpp", "server/http/a.cc", "server/metrics/a.cc"),
                ("oneapi/dnnl/dnnl.hpp", "worker/nn/onednn/a.h", "worker/train/a.cc"),
                ("cuda_runtime.h", "kernels/cuda/reduce.cu", "kernels/cpu/reduce.cc"),
                ("cudnn.h", "worker/cuda/a.cc", "worker/nn/layers.cc"),
                ("hwloc.h", "common/base/affinity.cc", "server/core/core.cc"),
                ("hwy/highway.h", "kernels/cpu/reduce.cc", "kernels/reduce.h")]:
            self.accepts(inside, f"#include <{header}>\n")
            self.refuses(outside, f"#include <{header}>\n", "only")

    def test_features_are_not_chosen_by_the_preprocessor(self):
        for line in ["#ifdef PHUB_CUDA", "#if HAVE_NUMA", "# ifndef GUARD_H", "#if 0",
                     "#if defined(__linux__) && defined(PHUB_SHM)", "#elif USE_TCP"]:
            self.refuses("server/core/core.cc", line + "\n", "does not choose features")
        self.accepts("common/base/check.h", "#ifdef PHUB_ENABLE_DCHECKS\n")
        self.accepts("kernels/cpu/reduce.cc", "#if HWY_ONCE\n")
        self.accepts("worker/client/phub_c.h", "#ifdef __cplusplus\n")
        self.accepts("common/pause.h", "#if defined(__x86_64__)  // else nothing\n")

    def test_values_of_the_logs_fields_are_quoted_in_one_place(self):
        self.refuses("server/jobs/job.cc", 'spdlog::info("event=x job=\\"{}\\"", name);\n', "log_value()")
        self.accepts("server/jobs/job.cc", 'spdlog::info("event=x job={}", log_value(name));\n')
        self.accepts("server/jobs/job.cc", 'fmt::format("no job \\"{}\\"", name);\n')

    def test_files_that_are_named_are_there(self):
        tree = {"server/core/core.h": "", "server/core/core.cc": "", "tests/rdma/real_devices.cc": ""}
        for path, text in [("server/job/a.h", "// See core.h and server/core/core.cc.\n"),
                           ("server/job/a.cc", "int a;  // as core/core.h says\n"),
                           ("README.md", "`core.cc`, [core](server/core/core.h), `tests/rdma/*_devices.cc`\n"),
                           ("tests/rdma/a.py", "# as core.h\nNAME = 'gone.h'\n"),
                           ("server/job/b.cc", 'auto a = "gone.h";  // https://example.org/gone.h\n'),
                           ("server/job/c.h", "// <gone.h>, linux/gone.h, control.pb.h, a/FILE.cc, core.h.in\n")]:
            self.assertEqual(rules.violations(tree | {path: text}), [])
        for path, text in [("server/job/a.h", "// See gone.h.\n"),
                           ("server/job/a.cc", "int a;  // as server/job/core.h says\n"),
                           ("README.md", "In `gone.py`.\n"),
                           ("README.md", "In `tests/rdma/gone_*.cc`.\n"),
                           ("server/job/a.c", "/* As gone.cu. */\n"),
                           ("tests/CMakeLists.txt", "# gone.cc\n")]:
            found = rules.violations(tree | {path: text})
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(f"{path}:1: "), found[0])
            self.assertIn("no such file", found[0])

    def test_files_have_at_most_500_lines(self):
        self.accepts("server/core/core.cc", "\n" * 500)
        self.refuses("server/core/core.cc", "\n" * 501, "501 lines")
        self.refuses("tests/run.sh", "\n" * 501)
        self.accepts("configs/data/labels.txt", "\n" * 5000)

    def test_unfinished_work_is_not_marked_in_files(self):
        for word in ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]:
            self.refuses("README.md", f"a {word}: later\n", word)
        self.accepts("deploy/quickstart.sh", "mktemp -d phub." + 6 * "X" + "\n")

    def test_no_machine_appears_in_files(self):
        for path in ["/ho" + "me/me/x", "/ro" + "ot/x", "/wo" + "rk/x", "../sha" + "red/data"]:
            self.refuses("deploy/quickstart.sh", f'cd "{path}"\n', "one machine")
        self.accepts("README.md", "https://example.org/ho" + "me/page and frame/wo" + "rk/x\n")

    def test_the_top_level_folders_are_fixed(self):
        self.accepts("configs/lenet.textproto")
        self.accepts(".ci/run")
        self.accepts("README.md")
        self.refuses("src/main.cc", saying="folder 'src'")
        self.refuses("utils/x.png", saying="folder 'utils'")

    def test_check_tree_sees_committed_and_untracked_files_but_no_ignored_ones(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)

            def run():
                return subprocess.run([sys.executable, str(CHECK_TREE), directory],
                                      capture_output=True, text=True, check=False)

            subprocess.run(["git", "init", "-q", directory], check=True)
            (root / "server/core").mkdir(parents=True)
            (root / ".gitignore").write_text("ignored.cc\n")
            (root / "server/ignored.cc").write_text('#include "worker/a.h"\n')
            (root / "server/data.bin").write_bytes(b"\0\xff")
            self.assertEqual(run().returncode, 0, run().stdout)
            (root / "server/core/core.cc").write_text('#include "worker/a.h"\n')
            self.assertEqual(run().returncode, 1)
            self.assertIn("server/core/core.cc:1: server may not include worker", run().stdout)
            subprocess.run(["git", "-C", directory, "add", "."], check=True)
            self.assertEqual(run().returncode, 1)


if __name__ == "__main__":
    unittest.main()
