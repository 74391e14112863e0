#include <memory>

#include "bench/cli/cli.h"
#include "bench/compare/commands.h"

namespace phub::bench {

namespace {
constexpr std::uint32_t kMostBytes = 4U << 20U;

Waiting waiting_of(const std::string& word) {
  if (word == "poll") return {.spin_iterations = 0, .yield_iterations = 0, .sleep = false};
  if (word == "sleep") return {.spin_iterations = 0, .yield_iterations = 0, .sleep = true};
  return {};
}
}  // namespace

void add_transport(CLI::App& app, Run& run) {
  auto options = std::make_shared<TransportOptions>();
  CLI::App* command = app.add_subcommand(
      "transport", "time writes with immediate between two processes, without a server");
  command->footer(
      "Bandwidth for each size of batch (writes in one post), then ping-pongs. --perftest runs\n"
      "ib_write_bw, ib_write_lat and ib_send_lat on the same devices in turns.\n"
      "  phub-bench transport --transport verbs --perftest\n"
      "  phub-bench transport --transport verbs --devices mlx5_0,mlx5_1 --batches 1,16");
  command->add_option("--transport", options->transport, "verbs or tcp")
      ->check(CLI::IsMember({"verbs", "tcp"}));
  command
      ->add_option("--devices", options->devices,
                   "RDMA devices: one for both ends, or one each; default: the first")
      ->delimiter(',')
      ->expected(1, 2)
      ->default_str("");
  command->add_option("--bytes", options->bytes, "bytes of a write")
      ->check(CLI::Range(1U, kMostBytes));
  command->add_option("--batches", options->batches, "writes in one post, several sizes")
      ->delimiter(',')
      ->check(CLI::Range(1U, 128U));
  command->add_option("--writes", options->writes, "writes of a bandwidth measurement")
      ->check(CLI::Range(std::uint64_t{128}, std::uint64_t{1} << 40U));
  command->add_option("--round-trips", options->round_trips, "round trips of a latency measurement")
      ->check(CLI::Range(std::uint64_t{5}, std::uint64_t{1} << 40U));
  command->add_option("--blocks", options->blocks, "how often everything takes its turn")
      ->check(CLI::Range(1U, 1000U));
  command
      ->add_option_function<std::string>(
          "--waiting", [options](const std::string& word) { options->waiting = waiting_of(word); },
          "adaptive (spin, yield, sleep: the default), poll (never sleep, as perftest) or sleep")
      ->check(CLI::IsMember({"adaptive", "poll", "sleep"}));
  command->add_flag("--perftest", options->perftest, "run perftest's programs beside (verbs)");
  command->add_flag("--json", options->json, "one JSON object a line instead of a table");
  command->callback([options, &run] {
    if (options->perftest && options->transport != "verbs") {
      throw CLI::ValidationError("--perftest", "needs --transport verbs");
    }
    run = [options] { return run_transport(*options); };
  });
}

}  // namespace phub::bench
