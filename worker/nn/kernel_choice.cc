#include "worker/nn/kernel_choice.h"

namespace phub::nn {

std::optional<KernelRule> parse_kernel_rule(std::string_view word) {
  if (word == "own") return KernelRule::kOwn;
  if (word == "onednn") return KernelRule::kLibrary;
  if (word == "blocked") return KernelRule::kBlocked;
  if (word == "measured") return KernelRule::kMeasured;
  return {};
}

}  // namespace phub::nn
