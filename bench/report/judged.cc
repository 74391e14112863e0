// Measures that have a bar to meet: of the exchange, and between tenants.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "bench/report/sections.h"

namespace phub::bench::report {
namespace {

// REQUIRES: it has the value.
plots::ValueBar judged_bar(const Record& record, std::string label, double value,
                           std::optional<double> limit) {
  plots::ValueBar bar{std::move(label), value, figure_of(value), {}, limit};
  const auto low = number_in(record, "min");
  const auto high = number_in(record, "max");
  if (low && high && *low < *high) bar.range = {*low, *high};
  return bar;
}

// "<= 5"
std::optional<double> limit_in(const std::string& words) {
  const std::size_t digits = words.find_first_of("-0123456789");
  if (digits == std::string::npos) return std::nullopt;
  const double limit = std::strtod(words.c_str() + digits, nullptr);
  return std::abs(limit) <= kMostNumber ? std::optional(limit) : std::nullopt;
}

}  // namespace

Section bars_section(const Records& records) {
  PageTable table("measure|>bar|>median|>least|>most|met");
  std::vector<plots::ValueBar> bars;
  for (const Record& record : records) {
    const auto limit = number_in(record, "limit");
    table.add({word_in(record, "measure"),
               limit ? fmt::format("{} {:g}x", is_true(record, "at_most") ? "<=" : ">=", *limit)
                     : kAbsent,
               figure_in(record, "value"), figure_in(record, "min"), figure_in(record, "max"),
               yes_in(record, "met")});
    const auto value = number_in(record, "value");
    if (value) bars.push_back(judged_bar(record, word_in(record, "measure"), *value, limit));
  }
  return {
      "Bars of the exchange", "measured",
      table.to_html() + side_by_side(figure("Ratios: median [least .. most], and the bar", bars))};
}

Section tenants_section(const Records& records) {
  PageTable table("measure|transport|>bar|>median|>least|>most|met");
  std::vector<plots::ValueBar> bars;
  for (const Record& record : records) {
    const std::string measure = word_in(record, "measure");
    const std::string transport = word_in(record, "transport");
    const std::string bar = word_in(record, "bar");
    table.add({measure, transport, bar, figure_in(record, "median"), figure_in(record, "min"),
               figure_in(record, "max"), bar.empty() ? "" : yes_in(record, "met")});
    const auto value = number_in(record, "median");
    const std::string label = transport + ": " + measure;
    if (value) bars.push_back(judged_bar(record, label, *value, limit_in(bar)));
  }
  return {"Tenants", "measured",
          table.to_html() + side_by_side(figure("Median [least .. most], and the bar", bars))};
}

}  // namespace phub::bench::report
