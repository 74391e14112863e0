#include "worker/cli/options/kernel_arguments.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "worker/cli/options/cache_folder.h"
#include "worker/cli/options/exit_status.h"

namespace phub {
namespace {

constexpr const char* kKernelsGroup = "Kernels (backend onednn)";

void print_progress(const nn::KernelChoice& choice) {
  if (choice.is_known || isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "\r\x1b[Kmeasured: {}\r", choice.operation);
}

double time_of(const nn::KernelChoice& choice) {
  const auto found = std::find_if(choice.times.begin(), choice.times.end(),
                                  [&](const auto& each) { return each.kernel == choice.kernel; });
  return found == choice.times.end() ? 0.0 : found->microseconds;
}

}  // namespace

void add_kernel_options(CLI::App& command, KernelArguments& arguments) {
  command
      .add_option(
          "--kernels", arguments.rule,
          "measured: the fastest on this machine (default); own: this project's where there "
          "is one; onednn: its first choice; blocked: that, for the layouts it likes best")
      ->type_name("RULE")
      ->check(CLI::IsMember({"measured", "own", "onednn", "blocked"}))
      ->group(kKernelsGroup);
  command
      .add_option("--kernel-cache", arguments.cache,
                  "What was measured; default: phub/kernels.jsonl in the user's cache")
      ->type_name("FILE")
      ->envname("PHUB_KERNEL_CACHE")
      ->group(kKernelsGroup);
}

void add_kernel_print(CLI::App& command, KernelArguments& arguments) {
  command
      .add_flag("--print-kernels", arguments.print,
                "Also what was chosen for each operation, and the times of what was not")
      ->group(kKernelsGroup);
}

Status check_kernel_arguments(const KernelArguments& arguments, bool is_onednn) {
  if (is_onednn || (arguments.rule.empty() && !arguments.print)) return {};
  return {Code::kInvalidArgument,
          "--kernels and --print-kernels are for --backend onednn: remove them"};
}

nn::KernelOptions kernel_options(const KernelArguments& arguments,
                                 std::vector<nn::KernelChoice>* chosen) {
  nn::KernelOptions options;
  options.rule = nn::parse_kernel_rule(arguments.rule).value_or(nn::KernelRule::kMeasured);
  if (options.rule == nn::KernelRule::kMeasured) {
    options.cache = arguments.cache.empty() ? cache_file("kernels.jsonl")
                                            : std::filesystem::path(arguments.cache);
    if (options.cache.empty() && arguments.rule.empty()) options.rule = nn::KernelRule::kOwn;
  }
  options.note = print_note;
  options.chosen = [chosen](const nn::KernelChoice& choice) {
    print_progress(choice);
    if (chosen != nullptr) chosen->push_back(choice);
  };
  return options;
}

std::string kernel_table(const std::vector<nn::KernelChoice>& choices) {
  std::string text;
  for (const nn::KernelChoice& choice : choices) {
    const double time = time_of(choice);
    text += choice.operation + "\n";
    text += time > 0.0 ? fmt::format("  * {:<32} {:>10.1f} us\n", choice.kernel, time)
                       : fmt::format("  * {}\n", choice.kernel);
    for (const nn::KernelTime& other : choice.times) {
      if (other.kernel == choice.kernel) continue;
      text += fmt::format("    {:<32} {:>10.1f} us  {:>5.2f}x\n", other.kernel, other.microseconds,
                          other.microseconds / time);
    }
  }
  return text;
}

nlohmann::ordered_json kernel_json(const std::vector<nn::KernelChoice>& choices) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const nn::KernelChoice& choice : choices) {
    nlohmann::ordered_json times = nlohmann::ordered_json::object();
    for (const nn::KernelTime& time : choice.times) times[time.kernel] = time.microseconds;
    all.push_back({{"operation", choice.operation},
                   {"kernel", choice.kernel},
                   {"known", choice.is_known},
                   {"microseconds", times}});
  }
  return all;
}

}  // namespace phub
