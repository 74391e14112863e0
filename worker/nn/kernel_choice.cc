#include "worker/nn/kernel_choice.h"

#include <array>
#include <utility>

namespace phub::nn {
namespace {

constexpr std::array<std::pair<KernelRule, std::string_view>, 4> kRules = {
    {{KernelRule::kOwn, "own"},
     {KernelRule::kLibrary, "onednn"},
     {KernelRule::kBlocked, "blocked"},
     {KernelRule::kMeasured, "measured"}}};

}  // namespace

std::optional<KernelRule> parse_kernel_rule(std::string_view word) {
  for (const auto& [rule, name] : kRules) {
    if (name == word) return rule;
  }
  return {};
}

std::string_view name_of(KernelRule rule) {
  for (const auto& [each, name] : kRules) {
    if (each == rule) return name;
  }
  return "";
}

}  // namespace phub::nn
