// A job's rounds, as `phubctl trace` writes them: where the time of a round goes, by process.
#include "bench/simulate/rounds.h"

#include <fmt/format.h>

#include <map>

#include "bench/base/statistics.h"
#include "bench/report/sections.h"

namespace phub::bench::report {
namespace {

constexpr double kMicrosecond = 1e-6;

struct TracedProcess {
  std::string name;
  std::map<std::string, std::vector<double>> parts;  // seconds, by the part's name
};

// By pid, so cores come before workers.
std::map<double, TracedProcess> processes_of(const Record& trace) {
  std::map<double, TracedProcess> processes;
  for (const Record& event : trace.at("traceEvents")) {
    if (!event.is_object()) continue;
    const auto pid = number_in(event, "pid");
    const auto micros = number_in(event, "dur");
    const std::string name = word_in(event, "name");
    if (!pid) continue;
    if (name == "process_name" && event.contains("args") && event["args"].is_object()) {
      processes[*pid].name = word_in(event["args"], "name");
    } else if (word_in(event, "ph") == "X" && micros) {
      processes[*pid].parts[name].push_back(kMicrosecond * *micros);
    }
  }
  return processes;
}

std::string period_note(const Record& trace) {
  const auto rounds = simulate::parse_rounds(
      trace.dump(-1, ' ', false, Record::error_handler_t::replace), "this trace");
  if (!rounds) return note("The time from round to round: " + rounds.error().message());
  return note(fmt::format("From round to round: {}, the median of {}.", time_of(rounds->seconds),
                          rounds->rounds));
}

}  // namespace

Section rounds_section(const Records& records) {
  std::string html;
  for (const Record& trace : records) {
    html += note("Job " + word_in(trace.at("otherData"), "job")) + period_note(trace);
    PageTable table("process|>spans|>push|>wait|>aggregate|>reply");
    std::vector<plots::ValueBar> bars;
    for (auto& [pid, process] : processes_of(trace)) {
      std::vector<double>& pushes = process.parts["push"];
      std::vector<std::string> cells = {process.name, count_of(static_cast<double>(pushes.size()))};
      for (const char* part : {"push", "wait", "aggregate", "reply"}) {
        const std::vector<double>& seconds = process.parts[part];
        cells.push_back(seconds.empty() ? kAbsent : time_of(median(seconds)));
      }
      table.add(cells);
      if (pushes.empty()) continue;
      const Spread spread = spread_of(pushes);
      bars.push_back({process.name,
                      spread.median,
                      time_of(spread.median),
                      plots::ValueRange{spread.min, spread.max},
                      {}});
    }
    html += heading("Medians of the parts of a round") + table.to_html() +
            side_by_side(figure("How long each pushes: median [least .. most]", bars));
  }
  return {"Rounds of a job", "measured", html};
}

}  // namespace phub::bench::report
