#include "tests/unit/kernels/targets.h"

#include <hwy/highway.h>

namespace phub::kernels::test {
namespace {

// What this build has and `mask` allows, best first.
std::vector<std::int64_t> targets_in(std::int64_t mask) {
  // Highway reports no fallback, but its dispatch always has one.
  mask = (mask & HWY_TARGETS) | HWY_STATIC_TARGET;
  std::vector<std::int64_t> targets;
  for (; mask != 0; mask &= mask - 1) targets.push_back(mask & -mask);
  return targets;
}

// Without the restriction of select_target.
std::vector<std::int64_t> machine_targets() {
  const std::int64_t restricted = hwy::SupportedTargets();
  hwy::SetSupportedTargetsForTest(0);
  auto targets = targets_in(hwy::SupportedTargets());
  hwy::SetSupportedTargetsForTest(restricted);
  return targets;
}

}  // namespace

std::vector<std::string_view> supported_targets() {
  std::vector<std::string_view> names;
  for (const std::int64_t target : machine_targets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

std::string_view active_target() {
  return hwy::TargetName(targets_in(hwy::SupportedTargets()).front());
}

bool select_target(std::string_view name) {
  if (name.empty()) {
    hwy::SetSupportedTargetsForTest(0);
    return true;
  }
  for (const std::int64_t target : machine_targets()) {
    if (name != hwy::TargetName(target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    return true;
  }
  return false;
}

}  // namespace phub::kernels::test
