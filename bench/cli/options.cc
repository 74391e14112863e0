#include "bench/cli/options.h"

#include <algorithm>
#include <cmath>
#include <string>
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
constexpr char kRuleHelp[] = "sum, mean, sgd, momentum, nesterov";

CLI::Validator rule_words() {
  return CLI::IsMember({"sum", "mean", "sgd", "momentum", "nesterov"});
}

}  // namespace

CLI::Validator worker_range() { return CLI::Range(1U, kMostWorkers); }

CLI::Validator number_range(double least, double most) {
  const CLI::Validator range = CLI::Range(least, most);
  const auto check = [range](std::string& text) {
    double value = 0.0;
    const bool is_nan = CLI::detail::lexical_cast(text, value) && std::isnan(value);
    return is_nan ? text + " is no number" : range(text);
  };
  return {check, range.get_description()};
}

void add_size(CLI::App& command, std::uint64_t& elements, std::string* keys) {
  elements = kResnet50Elements;
  command
      .add_option("--elements,-E", elements,
                  "elements of one worker's gradients; 25557032 is ResNet-50, 8192 one 32 KiB "
                  "chunk of fp32")
      ->check(CLI::Range(std::uint64_t{1}, kMostElements));
  if (keys == nullptr) return;
  command.add_option(
      "--keys", *keys,
      "how the elements are cut into keys (tensors): resnet50 (its 161 keys; for other "
      "totals in that proportion), one, a number of equal keys, or auto: resnet50 from "
      "1,000,000 elements on, else one");
}

void add_dtype(CLI::App& command, DataType& dtype, const std::string& help) {
  const auto take = [&dtype](const std::string& word) { dtype = *parse_data_type(word); };
  command.add_option_function<std::string>("--dtype", take, help)
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->default_str(std::string(name_of(dtype)));
}

void add_rule(CLI::App& command, RuleKind& rule) {
  const auto take = [&rule](const std::string& word) { rule = *parse_rule_kind(word); };
  command.add_option_function<std::string>("--rule", take, kRuleHelp)
      ->check(rule_words())
      ->default_str(std::string(name_of(rule)));
}

void add_any_rule(CLI::App& command, RuleKind& rule) {
  const auto take = [&rule](const std::string& word) { rule = *parse_rule_kind(word); };
  command
      .add_option_function<std::string>("--rule", take,
                                        std::string(kRuleHelp) + ", adam, adamw, adagrad")
      ->check(
          CLI::IsMember({"sum", "mean", "sgd", "momentum", "nesterov", "adam", "adamw", "adagrad"}))
      ->default_str(std::string(name_of(rule)));
}

void add_rules(CLI::App& command, std::vector<RuleKind>& rules) {
  const auto take = [&rules](const std::vector<std::string>& words) {
    rules.clear();
    for (const std::string& word : words) rules.push_back(*parse_rule_kind(word));
  };
  command.add_option_function<std::vector<std::string>>("--rule", take, kRuleHelp)
      ->delimiter(',')
      ->check(rule_words())
      ->default_str("[sum]");
}

void add_work(CLI::App& command, Work& work) {
  add_size(command, work.elements, &work.keys);
  add_dtype(command, work.dtype, "element type on the wire");
  const auto take = [&work](const std::string& word) {
    work.deterministic = word == "deterministic";
  };
  command
      .add_option_function<std::string>("--order", take,
                                        "order in which the server adds the workers' parts")
      ->check(CLI::IsMember({"deterministic", "arrival"}))
      ->default_str("deterministic");
  command.add_option("--congestion", work.congestion,
                     "tcp congestion control of phub: auto (reno within a host), system (what its "
                     "peers use too), or a name that the kernel offers");
  work.server_cores = std::max(1U, std::thread::hardware_concurrency());
  command.add_option("--server-cores", work.server_cores, "pinned cores of each server")
      ->check(CLI::Range(1U, kMostCores));
  command.add_option("--servers", work.servers, "servers that share the keys")
      ->check(CLI::Range(1U, kMostServers));
}

void add_plan(CLI::App& command, BlockPlan& plan) {
  plan.iterations *= plan.blocks;
  command
      .add_option("--iterations,-I", plan.iterations,
                  "timed iterations of each system, spread evenly over the blocks (rounded up)")
      ->check(CLI::Range(1U, kMostIterations));
  command
      .add_option("--blocks,-B", plan.blocks,
                  "blocks: the systems take turns, one block each; ratios are taken block by block")
      ->check(CLI::Range(1U, 1000U));
  command.add_option("--warm-up", plan.warm_up, "untimed iterations at the start of each block")
      ->check(CLI::Range(1U, 1000U));
}

BlockPlan spread(BlockPlan typed) {
  typed.blocks = std::min(typed.blocks, typed.iterations);
  typed.iterations = (typed.iterations + typed.blocks - 1) / typed.blocks;
  return typed;
}

void runs(CLI::App& command, Run& run, Run action) {
  command.callback([&run, action = std::move(action)] { run = action; });
}

}  // namespace phub::bench
