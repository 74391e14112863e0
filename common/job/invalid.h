// The error of a spec that is not taken.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "common/base/status.h"

namespace phub {

template <typename... Arguments>
Status invalid(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return {Code::kInvalidArgument, fmt::format(format, std::forward<Arguments>(arguments)...)};
}

}  // namespace phub
