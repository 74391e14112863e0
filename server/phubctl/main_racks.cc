// `phubctl probe` and `job shapes`.
#include <memory>

#include "server/phubctl/main.h"

namespace phub::phubctl {
namespace {

constexpr double kGbitMax = 1e6;

void declare_shapes(CLI::App& jobs, Command& command) {
  CLI::App& sub = add_subcommand(
      jobs, "shapes", "What each shape of a job over racks would take, by the last probe",
      "Examples:\n"
      "  phubctl job shapes --racks a:4,b:4 --bytes 100e6\n"
      "  phubctl job shapes --racks a:8,b:8,c:8 --key conv1.weight:500 \\\n"
      "      --wire-type bf16 --worker-gbit 10\n"
      "  phubctl job shapes --racks a:4,b:4 --bytes 100e6 --rack-compress 0.01\n\n"
      "spread, chain, multicolour, hybrid (small keys as spread, large ones as chain) and nested\n"
      "(by the levels of racks' names, as site1/row2/rack3; a group's uplink is taken to be as\n"
      "fast as the fastest link through it) join the racks' servers (--rack-shape of job create).\n"
      "Of the shapes within 1 % of the fastest it takes the one whose small keys are there\n"
      "first, for the next forward begins with them. flat has no racks: all workers go to\n"
      "the servers of all racks. It also says whether --rack-compress is expected to be\n"
      "faster. The times are predicted, not measured, and of the exchange alone, as if\n"
      "nothing hid it.");
  auto job = std::make_shared<JobOptions>();
  declare_rack_options(sub, *job)->required();
  sub.add_option("--key", job->keys, "NAME:ELEMENTS, instead of --bytes")
      ->excludes("--bytes")
      ->allow_extra_args(false);
  add_flag(sub, *job, "--wire-type", "wire_type", "fp32, fp16 or bf16; left out: fp32");
  declare_chunks(sub, *job);
  run_with(sub, command, job, print_shapes);
}

}  // namespace

void declare_plan_options(CLI::App& sub, PlanOptions& plan, CLI::Option* needed) {
  const auto add = [&](const std::string& name, double& value, const char* help) {
    return sub.add_option(name, value, help)->needs(needed);
  };
  add("--bytes", plan.bytes, "Of the model in the wire type; left out: of its keys")
      ->check(CLI::Range(1.0, 1e15));
  add("--worker-gbit", plan.worker_gbit, "Of a worker's NIC, Gb/s; left out: as its server's")
      ->check(CLI::Range(1e-3, kGbitMax));
  add("--server-gbit", plan.server_gbit,
      "Of a server's NIC, Gb/s; left out: its fastest link in the probe")
      ->check(CLI::Range(1e-3, kGbitMax));
}

CLI::Option* declare_rack_options(CLI::App& sub, JobOptions& job) {
  CLI::Option* const racks =
      add_flag(sub, job, "--racks", "racks", "Racks and their workers, for a job that spans racks")
          ->type_name("NAME:WORKERS,...");
  add_flag(sub, job, "--rack-wire-type", "rack_wire_type",
           "What racks push their sums to each other in: fp32, fp16 or bf16; left out: fp32");
  add_flag(sub, job, "--rack-compress", "rack_compress.density",
           "Share of a chunk's elements, the largest of its sum, that racks push each other, with "
           "their places and in fp32 (rack_compress); such as 0.01; left out: whole sums")
      ->type_name("DENSITY");
  add_flag(sub, job, "--rack-dense-below", "rack_compress.dense_below",
           "Keys with fewer elements go whole; left out: 4096")
      ->type_name("N");
  declare_plan_options(sub, job.plan, racks);
  return racks;
}

void declare_probe(CLI::App& app, CLI::App& jobs, Command& command) {
  CLI::App& sub = add_subcommand(
      app, "probe", "Measure the links between the servers of all racks",
      "Examples:\n"
      "  phubctl probe\n"
      "  phubctl probe --seconds 1 --mib 1024    longer, where rates change\n"
      "  phubctl probe --last                    what was measured last\n\n"
      "Each pair of servers that `phubctl racks` lists is measured over tcp, one after another:\n"
      "latency and rate. It takes about a second a pair, and loads each link meanwhile. The\n"
      "server keeps the result with its date; `phubctl job shapes` and `job plan --explain`\n"
      "predict by it. An administrator's credentials are shown to each server.");
  auto options = std::make_shared<ProbeOptions>();
  auto* const last = sub.add_flag("--last", options->last, "Show the last one, measure nothing");
  sub.add_option("--seconds", options->seconds, "Of each of the five measurements of a pair, about")
      ->check(CLI::Range(0.01, 5.0))
      ->capture_default_str()
      ->excludes(last);
  sub.add_option("--mib", options->mib, "In either direction at most, MiB")
      ->check(CLI::Range(8U, 16384U))
      ->capture_default_str()
      ->excludes(last);
  run_with(sub, command, options, probe);
  declare_shapes(jobs, command);
}

}  // namespace phub::phubctl
