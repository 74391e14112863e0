// What a job's servers do about values that workers push and that are not finite.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/words.h"

namespace phub {

enum class WatchValues : std::uint8_t {
  kOff,   // nothing: they go into the sum, or are left out with it where there is a loss scale
  kName,  // who pushed them is told: worker, key, element and round
  kFail,  // the same, and the first one ends the job with an error that says so
};

inline constexpr Words<WatchValues, 3> kWatchValuesWords = {{"off", "name", "fail"}};
constexpr std::string_view name_of(WatchValues watch) { return kWatchValuesWords.of(watch); }
constexpr auto parse_watch_values(std::string_view word) { return kWatchValuesWords.parse(word); }

}  // namespace phub
