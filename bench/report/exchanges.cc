// Timed systems: exchanges, chunk sizes, passes over memory, connections.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "bench/base/statistics.h"
#include "bench/report/sections.h"

namespace phub::bench::report {
namespace {

// Groups in the order in which they first appear.
template <typename Item>
using Groups = std::vector<std::pair<std::string, std::vector<Item>>>;

template <typename Item>
std::vector<Item>& group(Groups<Item>& groups, const std::string& name) {
  for (auto& [known, items] : groups) {
    if (known == name) return items;
  }
  return groups.emplace_back(name, std::vector<Item>()).second;
}

bool is_roof(const Record& record) { return word_in(record, "bench") == "roof"; }

std::string system_of(const Record& record) {
  std::string name = word_in(record, is_roof(record) ? "rule" : "system");
  const std::string transport = word_in(record, "transport");
  if (!transport.empty() && transport != "memory") name += ", " + transport;
  if (is_true(record, "encrypted")) name += ", encrypted";
  if (is_true(record, "votes")) name += ", with votes";
  if (is_true(record, "watches_values")) name += ", values watched";
  if (is_true(record, "checksums")) name += ", with checksums";
  const auto streams = number_in(record, "tcp_streams");
  if (streams && *streams > 1) name += ", " + count_in(record, "tcp_streams") + " streams";
  return name;
}

// The work but for one field that runs along an axis.
std::string work_of(const Record& record, std::string_view axis) {
  std::string text;
  const auto add = [&](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
  if (axis != "workers") add(counted_in(record, "workers", "worker"));
  add(count_in(record, "elements") + " " + word_in(record, "dtype"));
  if (!is_roof(record)) add(word_in(record, "rule"));
  if (word_in(record, "order") == "arrival") add("order of arrival");
  if (number_in(record, "servers")) add(counted_in(record, "servers", "server"));
  if (number_in(record, "server_cores")) add(counted_in(record, "server_cores", "core"));
  if (axis != "chunk_kib" && number_in(record, "chunk_kib")) {
    add(count_in(record, "chunk_kib") + " KiB chunks");
  }
  return text;
}

// What all have in common, to be said once; "" if they differ.
std::string common_work(const Records& records) {
  const std::string work = work_of(records.front(), "");
  const bool is_common = std::all_of(records.begin(), records.end(), [&](const Record& record) {
    return work_of(record, "") == work;
  });
  return is_common ? work : "";
}

std::string ratio_in(const Record& record) {
  for (const std::string base : {"phub", "tall_fused"}) {
    const std::string prefix = "ratio_to_" + base + "_";
    const auto middle = number_in(record, (prefix + "p50").c_str());
    if (!middle) continue;
    return fmt::format("{:.2f}x [{:.2f} .. {:.2f}]", *middle,
                       number_in(record, (prefix + "min").c_str()).value_or(0.0),
                       number_in(record, (prefix + "max").c_str()).value_or(0.0));
  }
  return kAbsent;
}

std::string timing_table(const Records& records) {
  PageTable table("system|work|>p50|>blocks' least|>most|>p99|>GB/s|>time / first|verified|note");
  const std::string common = common_work(records);
  for (const Record& record : records) {
    const std::vector<double> blocks = numbers_in(record, "seconds_p50_of_blocks");
    const Spread spread = spread_of(blocks);
    table.add({system_of(record), common.empty() ? work_of(record, "") : "",
               time_in(record, "seconds_p50"), blocks.empty() ? kAbsent : time_of(spread.min),
               blocks.empty() ? kAbsent : time_of(spread.max), time_in(record, "seconds_p99"),
               figure_in(record, "gigabytes_per_second"), ratio_in(record),
               yes_in(record, "verified"), word_in(record, "note")});
  }
  return (common.empty() ? "" : note(common)) + table.to_html();
}

// A picture for each work: a bar for each system, the median with the range of the blocks.
std::string timing_bars(const Records& records) {
  Groups<plots::ValueBar> works;
  for (const Record& record : records) {
    const auto p50 = number_in(record, "seconds_p50");
    if (!p50) continue;
    plots::ValueBar bar{system_of(record), *p50, time_of(*p50), {}, {}};
    const Spread blocks = spread_of(numbers_in(record, "seconds_p50_of_blocks"));
    if (blocks.max > 0.0) bar.range = {blocks.min, blocks.max};
    std::vector<plots::ValueBar>& bars = group(works, work_of(record, ""));
    // A file may tell of one system in several comparisons.
    const bool is_there = std::any_of(bars.begin(), bars.end(), [&](const plots::ValueBar& each) {
      return each.label == bar.label && each.value == bar.value;
    });
    if (!is_there) bars.push_back(std::move(bar));
  }
  std::string figures;
  for (const auto& [work, bars] : works) {
    figures += figure("Median of an iteration [blocks' least .. most]: " + work, bars);
  }
  return figures;
}

// Lines over a field that takes several values, a picture for each work.
std::string timing_lines(const Records& records, const char* field, const std::string& axis) {
  Groups<plots::NamedLine> works;
  for (const Record& record : records) {
    const auto x = number_in(record, field);
    const auto y = number_in(record, "seconds_p50");
    if (!x || !y) continue;
    std::vector<plots::NamedLine>& lines = group(works, work_of(record, field));
    const std::string name = system_of(record);
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const plots::NamedLine& each) { return each.name == name; });
    if (line == lines.end()) line = lines.insert(lines.end(), {name, {}, true});
    line->points.push_back({*x, *y});
  }
  std::string figures;
  for (auto& [work, lines] : works) {
    for (plots::NamedLine& line : lines) {
      std::stable_sort(line.points.begin(), line.points.end(),
                       [](const auto& a, const auto& b) { return a.x < b.x; });
    }
    std::erase_if(lines, [](const plots::NamedLine& line) {
      return line.points.front().x == line.points.back().x;  // a bar says as much
    });
    const plots::LinePlot plot{axis, std::move(lines), {}, true, true, count_of, time_of};
    figures += figure("Median of an iteration over " + axis + ": " + work, plot);
  }
  return figures;
}

}  // namespace

Section exchange_section(const Records& records) {
  return {"Exchange", "measured",
          timing_table(records) +
              side_by_side(timing_lines(records, "workers", "workers") + timing_bars(records))};
}

Section chunks_section(const Records& records) {
  return {"Chunk sizes", "measured",
          timing_table(records) + side_by_side(timing_lines(records, "chunk_kib", "KiB a chunk"))};
}

Section roof_section(const Records& records) {
  return {"What memory allows", "measured",
          timing_table(records) + side_by_side(timing_bars(records))};
}

Section aggregate_section(const Records& records) {
  return {"Ways to aggregate", "measured",
          timing_table(records) + side_by_side(timing_bars(records))};
}

Section transport_section(const Records& records) {
  PageTable table("system|transport|measure|>write|>GB/s|>median|verified");
  std::vector<plots::ValueBar> rates;
  std::vector<plots::ValueBar> times;
  for (const Record& record : records) {
    const std::string label = word_in(record, "system") + ", " + word_in(record, "measure");
    const auto rate = number_in(record, "gigabytes_per_second");
    const auto time = number_in(record, "seconds_p50");
    if (rate) rates.push_back({label, *rate, figure_of(*rate) + " GB/s", {}, {}});
    if (time) times.push_back({label, *time, time_of(*time), {}, {}});
    table.add({word_in(record, "system"), word_in(record, "transport"), word_in(record, "measure"),
               bytes_in(record, "bytes"), figure_in(record, "gigabytes_per_second"),
               time_in(record, "seconds_p50"), yes_in(record, "verified")});
  }
  return {"One connection", "measured",
          table.to_html() +
              side_by_side(figure("Bandwidth, median", rates) + figure("Latency, median", times))};
}

}  // namespace phub::bench::report
