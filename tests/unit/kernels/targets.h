// Which instruction set the kernels use: Highway keeps the choice, and tests name and restrict it.
//
// Not thread-safe against running kernels.
#pragma once

#include <string_view>
#include <vector>

namespace phub::kernels::test {

// Names of the instruction sets that this machine can run, best first; the first is in use.
std::vector<std::string_view> supported_targets();
std::string_view active_target();

// Restricts dispatch to one of supported_targets(), or lifts the restriction (empty).
bool select_target(std::string_view name);

}  // namespace phub::kernels::test
