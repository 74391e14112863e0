#include "bench/dollars/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/dollars/price_file.h"
#include "common/text/table.h"

namespace phub::bench {
namespace {

constexpr double kThousandMillis = 1e3;
constexpr double kPercent = 100.0;
constexpr double kMostWritten = 1e18;  // digit by digit
constexpr std::size_t kSensitivitiesShown = 12;

std::string dollars(double value) {
  if (value >= kMostWritten) return fmt::format("{:.3g}", value);
  return human_count(static_cast<std::uint64_t>(std::llround(value)));
}

std::string heading_of(const PriceFile& prices) {
  std::string text = fmt::format("Of {}: {}\n", prices.date(), prices.source());
  if (prices.has_workload()) {
    const PricedWorkload& work = prices.workload();
    text += fmt::format("{}: {} MB, {} samples in {} ms ({})\n", work.name(),
                        figure(static_cast<double>(work.model_bytes()) / 1e6), work.samples(),
                        figure(work.compute_ms()), work.source());
  }
  if (prices.has_power()) {
    text +=
        fmt::format("Power: {} years, {} $/kWh, overhead {}\n", figure(prices.power().years()),
                    figure(prices.power().dollars_per_kwh()), figure(prices.power().overhead()));
  } else {
    text += "Power: left out, the file has no power { ... }\n";
  }
  return text + "\n";
}

std::string throughput_table(const std::vector<PricedRow>& rows) {
  Table table(
      "deployment|throughput|>iteration|bound by|>samples/s|>dollars|>samples/s per $1000|"
      ">against the first");
  for (const PricedRow& row : rows) {
    const bool has_parts = row.basis != Basis::kPublished;
    table.add({row.deployment, std::string(name_of(row.basis)),
               row.seconds > 0.0 ? figure(row.seconds * kThousandMillis) + " ms" : "",
               std::string(row.bound), has_parts ? figure(row.samples_per_second) : "",
               has_parts ? dollars(row.bill.total()) : "", figure(row.per_1000_dollars),
               fmt::format("{:.3f}x", row.ratio)});
  }
  return table.to_string();
}

std::string bill_table(const std::vector<PricedRow>& rows) {
  std::vector<std::string> titles = {"dollars for"};
  titles.insert(titles.end(), kExpenseNames.begin(), kExpenseNames.end());
  titles.emplace_back("watts");
  Table table(std::move(titles), 1);
  for (const PricedRow& row : rows) {
    if (row.basis == Basis::kPublished) continue;
    std::vector<std::string> cells = {row.deployment};
    for (std::size_t i = 0; i < kExpenseNames.size(); ++i) {
      cells.push_back(dollars(row.bill.of(static_cast<Expense>(i))));
    }
    cells.push_back(dollars(row.bill.watts));
    table.add(cells);
  }
  return table.empty() ? "" : "\n" + table.to_string();
}

std::string sources_of(const std::vector<PricedRow>& rows) {
  std::string text;
  for (const PricedRow& row : rows) {
    if (row.source.empty()) continue;
    text += fmt::format("{} ({}): {}\n", row.deployment, name_of(row.basis), row.source);
  }
  return text.empty() ? text : "\n" + text;
}

std::string curve_text(const Curve& curve) {
  std::vector<std::string> titles = {title_of(curve.axis)};
  for (const PricedRow& row : curve.points.front().rows) {
    titles.push_back(fmt::format("{} ({})", row.deployment, name_of(row.basis)));
  }
  Table table(std::move(titles), 0);
  for (const CurvePoint& point : curve.points) {
    std::vector<std::string> cells = {figure(point.value)};
    for (const PricedRow& row : point.rows) cells.push_back(figure(row.per_1000_dollars));
    table.add(cells);
  }
  std::string text =
      fmt::format("\nsamples/s per $1000, by {}{}\n{}", title_of(curve.axis),
                  curve.is_of_model ? " (what was measured holds for one point: predicted)" : "",
                  table.to_string());
  for (const BreakEven& found : curve.break_evens) {
    text += fmt::format("{} ({}): better than {} {} {}\n", found.deployment, name_of(found.basis),
                        curve.points.front().rows.front().deployment,
                        found.is_better_above ? "from" : "below", figure(found.value));
  }
  if (curve.break_evens.empty()) text += "no break-even in this range\n";
  return text;
}

std::string sensitivity_text(const DollarsResult& result) {
  if (result.sensitivities.empty()) return "\nNothing changes a ratio to the first deployment.\n";
  const std::string by = figure(kPercent * result.share);
  const std::string off = figure(1.0 + result.share);
  Table table({"ratio to the first", "throughput", "of what is off", "/ " + off, "x " + off}, 3);
  const std::size_t shown = std::min(kSensitivitiesShown, result.sensitivities.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Sensitivity& one = result.sensitivities[i];
    table.add({one.deployment, std::string(name_of(one.basis)), title_of(one.axis),
               fmt::format("{:.3f}x", one.low), fmt::format("{:.3f}x", one.high)});
  }
  const std::size_t left = result.sensitivities.size() - shown;
  return fmt::format("\nOne figure off by {} %, the widest first{}\n{}", by,
                     left > 0 ? fmt::format("; {} more in --json", left) : "", table.to_string());
}

}  // namespace

std::string figure(double value) {
  if (value >= kMostWritten) return fmt::format("{:.3g}", value);
  if (value >= 1000.0) return human_count(static_cast<std::uint64_t>(std::llround(value)));
  if (value <= 0.0) return "0";
  const int digits = std::clamp(3 - static_cast<int>(std::floor(std::log10(value))), 0, 9);
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string title_of(const std::string& axis) {
  if (axis == "gpu-speed") return "compute speed, times";
  if (axis == "model-size") return "model size, times";
  if (axis == "server-nics") return "NICs of a server";
  if (axis == "workers") return "workers in a rack";
  if (axis == "price:power") return "price of power, times";
  if (axis.starts_with("price:")) return fmt::format("price of {}, times", axis.substr(6));
  return axis;
}

std::string text_of(const DollarsResult& result) {
  std::string text = heading_of(result.prices) + throughput_table(result.rows) +
                     bill_table(result.rows) + sources_of(result.rows);
  for (const Curve& curve : result.curves) text += curve_text(curve);
  if (result.share > 0.0) text += sensitivity_text(result);
  return text;
}

}  // namespace phub::bench
