#include "bench/simulate/rounds.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/base/statistics.h"
#include "bench/simulate/trace.h"

namespace phub::bench::simulate {
namespace {

using RoundsJson = nlohmann::json;

constexpr double kMicroseconds = 1e6;  // of a second

// Of each round the first push, over all cores, in microseconds.
std::map<std::uint64_t, double> starts_of(const RoundsJson& events) {
  std::map<std::uint64_t, double> starts;
  for (const RoundsJson& event : events) {
    if (!event.is_object() || event.value("name", "").rfind("round ", 0) != 0) continue;
    if (!event.contains("args") || !event["args"].is_object()) continue;
    const std::uint64_t round = event["args"].value("round", std::uint64_t{0});
    const double start = event.value("ts", 0.0);
    const auto [found, is_new] = starts.emplace(round, start);
    if (!is_new) found->second = std::min(found->second, start);
  }
  return starts;
}

}  // namespace

Result<MeasuredRounds> parse_rounds(std::string_view text, const std::string& name) {
  const Status refused(Code::kInvalidArgument,
                       name + ": is no trace of a job's rounds; write one with: phubctl trace JOB");
  std::map<std::uint64_t, double> starts;
  try {
    const RoundsJson trace = RoundsJson::parse(text);
    if (!trace.is_object() || !trace.contains("traceEvents")) return refused;
    starts = starts_of(trace["traceEvents"]);
  } catch (const RoundsJson::exception& error) {
    return refused.with_context(error.what());
  }
  std::vector<double> periods;
  for (auto at = starts.begin(); at != starts.end(); ++at) {
    const auto next = std::next(at);
    if (next == starts.end() || next->first != at->first + 1) continue;
    const double period = (next->second - at->second) / kMicroseconds;
    if (period > 0.0 && std::isfinite(period)) periods.push_back(period);
  }
  if (periods.empty()) {
    return Status(Code::kInvalidArgument, name +
                                              ": has no two rounds in a row that begin one after "
                                              "the other; trace the job while it trains");
  }
  return MeasuredRounds{.seconds = median(periods), .rounds = periods.size()};
}

Result<MeasuredRounds> read_rounds(const std::string& path) {
  PHUB_ASSIGN_OR_RETURN(const std::string text, read_whole(path));
  return parse_rounds(text, path);
}

}  // namespace phub::bench::simulate
