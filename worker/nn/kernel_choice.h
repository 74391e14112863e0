// How a CPU backend chooses among the implementations of an operation, and what it tells of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phub::nn {

enum class KernelRule : std::uint8_t {
  kOwn,       // this project's kernels where the processor has them, else the library's first
  kLibrary,   // the library's first for images as they lie in memory (NHWC)
  kBlocked,   // the library's first for images in the layout it likes best, reorders and all
  kMeasured,  // the fastest, by trying them on this machine
};

// "own", "onednn", "blocked", "measured"; nothing for any other word.
std::optional<KernelRule> parse_kernel_rule(std::string_view word);

struct KernelTime {
  std::string kernel;
  double microseconds = 0.0;  // median of a run, reorders included

  bool operator==(const KernelTime&) const = default;
};

struct KernelChoice {
  std::string operation;  // pass, type and shape
  std::string kernel;
  bool is_known = false;          // from the cache, or forced: not measured now
  std::vector<KernelTime> times;  // of all that were measured; none where nothing was

  bool operator==(const KernelChoice&) const = default;
};

struct KernelOptions {
  KernelRule rule = KernelRule::kOwn;
  // Of kMeasured: where choices are remembered. Without a file nothing is measured, since the next
  // run could choose differently and so differ in bits: then the rule is kOwn.
  std::filesystem::path cache{};
  // Sentences about what failed and does not end the run.
  std::function<void(std::string_view)> note = [](std::string_view) {};
  // Once for each different operation, as it is chosen.
  std::function<void(const KernelChoice&)> chosen = [](const KernelChoice&) {};
};

}  // namespace phub::nn
