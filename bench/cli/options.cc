#include "bench/cli/options.h"

#include <algorithm>
#include <thread>

#include "bench/base/keys.h"
#include "kernels/reduce.h"

namespace phub::bench {
namespace {

constexpr unsigned kMostWorkers = kernels::kMaxSources;
constexpr unsigned kMostServers = 64;
constexpr unsigned kMostCores = 1024;
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 36;
constexpr unsigned kMostIterations = 10'000'000;

}  // namespace

CLI::Validator rule_words() {
  return CLI::IsMember({"sum", "mean", "sgd", "momentum", "nesterov"});
}

CLI::Validator worker_range() { return CLI::Range(1U, kMostWorkers); }

void add_size(CLI::App& command, std::uint64_t& elements, std::string* keys) {
  elements = kResnet50Elements;
  command
      .add_option("--elements,-E", elements,
                  "elements of one worker's gradients; 25557032 is ResNet-50, 8192 one 32 KiB "
                  "chunk of fp32")
      ->check(CLI::Range(std::uint64_t{1}, kMostElements))
      ->capture_default_str();
  if (keys == nullptr) return;
  command
      .add_option("--keys", *keys,
                  "how the elements are cut into keys (tensors): resnet50 (its 161 keys; for other "
                  "totals in that proportion), one, a number of equal keys, or auto: resnet50 from "
                  "1,000,000 elements on, else one")
      ->capture_default_str();
}

void add_work(CLI::App& command, Work& work, WorkWords& words) {
  add_size(command, work.elements, &work.keys);
  command.add_option("--dtype", words.dtype, "element type on the wire")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->capture_default_str();
  command.add_option("--order", words.order, "order in which the server adds the workers' parts")
      ->check(CLI::IsMember({"deterministic", "arrival"}))
      ->capture_default_str();
  command
      .add_option("--congestion", work.congestion,
                  "tcp congestion control of phub: auto (reno within a host), system (what its "
                  "peers use too), or a name that the kernel offers")
      ->capture_default_str();
  work.server_cores = std::max(1U, std::thread::hardware_concurrency());
  command.add_option("--server-cores", work.server_cores, "pinned cores of each server")
      ->check(CLI::Range(1U, kMostCores))
      ->capture_default_str();
  command.add_option("--servers", work.servers, "servers that share the keys")
      ->check(CLI::Range(1U, kMostServers))
      ->capture_default_str();
}

void add_plan(CLI::App& command, PlanWords& words) {
  command
      .add_option("--iterations,-I", words.iterations,
                  "timed iterations of each system, spread evenly over the blocks (rounded up)")
      ->check(CLI::Range(1U, kMostIterations))
      ->capture_default_str();
  command
      .add_option("--blocks,-B", words.blocks,
                  "blocks: the systems take turns, one block each; ratios are taken block by block")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  command.add_option("--warm-up", words.warm_up, "untimed iterations at the start of each block")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
}

Work understood(Work work, const WorkWords& words) {
  work.dtype = parse_data_type(words.dtype).value_or(work.dtype);
  work.rule = parse_rule_kind(words.rule).value_or(work.rule);
  work.deterministic = words.order == "deterministic";
  return work;
}

BlockPlan understood(const PlanWords& words) {
  const unsigned blocks = std::min(words.blocks, words.iterations);
  BlockPlan plan;
  plan.blocks = blocks;
  plan.iterations = (words.iterations + blocks - 1) / blocks;
  plan.warm_up = words.warm_up;
  return plan;
}

}  // namespace phub::bench
