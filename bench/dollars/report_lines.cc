// The report for programs: JSON lines and CSV.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/dollars/report.h"

namespace phub::bench {
namespace {

using PricedJson = nlohmann::ordered_json;

constexpr std::string_view kNewLine = "\n";

PricedJson opening(const DollarsResult& result, const char* what) {
  return {{"bench", "dollars"}, {"what", what}, {"prices_of", result.prices.date()}};
}

PricedJson row_json(const DollarsResult& result, const PricedRow& row) {
  PricedJson object = opening(result, "deployment");
  object["prices_source"] = result.prices.source();
  object["deployment"] = row.deployment;
  object["throughput"] = name_of(row.basis);
  if (!row.source.empty()) object["source"] = row.source;
  if (row.seconds > 0.0) {
    object["iteration_seconds"] = row.seconds;
    object["bound_by"] = row.bound;
  }
  if (row.basis != Basis::kPublished) {
    object["samples_per_second"] = row.samples_per_second;
    object["dollars"] = row.bill.total();
    object["watts"] = row.bill.watts;
    for (const BillItem& item : row.bill.items) {
      object["bill"].push_back({{"for", kExpenseNames[static_cast<std::size_t>(item.expense)]},
                                {"part", item.part},
                                {"pieces", item.pieces},
                                {"dollars", item.dollars}});
    }
  }
  object["per_1000_dollars"] = row.per_1000_dollars;
  object["ratio_to_first"] = row.ratio;
  return object;
}

std::string curve_json(const DollarsResult& result, const Curve& curve) {
  std::string lines;
  for (const CurvePoint& point : curve.points) {
    for (const PricedRow& row : point.rows) {
      PricedJson object = opening(result, "curve");
      object["axis"] = curve.axis;
      object["value"] = point.value;
      object["deployment"] = row.deployment;
      object["throughput"] = name_of(row.basis);
      object["samples_per_second"] = row.samples_per_second;
      object["dollars"] = row.bill.total();
      object["per_1000_dollars"] = row.per_1000_dollars;
      object["ratio_to_first"] = row.ratio;
      lines.append(object.dump()).append(kNewLine);
    }
  }
  for (const BreakEven& found : curve.break_evens) {
    PricedJson object = opening(result, "break_even");
    object["axis"] = curve.axis;
    object["value"] = found.value;
    object["deployment"] = found.deployment;
    object["throughput"] = name_of(found.basis);
    object["is_better_above"] = found.is_better_above;
    lines.append(object.dump()).append(kNewLine);
  }
  return lines;
}

// RFC 4180: a cell with a comma, a quote or a new line is quoted.
std::string cell(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char character : text) quoted.append(character == '"' ? 2 : 1, character);
  return quoted + "\"";
}

std::string rows_csv(const DollarsResult& result) {
  std::string text = "prices_of,deployment,throughput,bound_by,samples_per_second,dollars";
  for (const std::string_view name : kExpenseNames) text += fmt::format(",dollars for {}", name);
  text += ",watts,per_1000_dollars,ratio_to_first\n";
  for (const PricedRow& row : result.rows) {
    text += fmt::format("{},{},{},{},", result.prices.date(), cell(row.deployment),
                        cell(name_of(row.basis)), row.bound);
    if (row.basis == Basis::kPublished) {
      text.append(kExpenseNames.size() + 2, ',');
    } else {
      text += fmt::format("{},{}", row.samples_per_second, row.bill.total());
      for (std::size_t i = 0; i < kExpenseNames.size(); ++i) {
        text += fmt::format(",{}", row.bill.of(static_cast<Expense>(i)));
      }
      text += fmt::format(",{}", row.bill.watts);
    }
    text += fmt::format(",{},{}\n", row.per_1000_dollars, row.ratio);
  }
  return text;
}

}  // namespace

std::string json_of(const DollarsResult& result) {
  std::string lines;
  for (const PricedRow& row : result.rows) {
    lines.append(row_json(result, row).dump()).append(kNewLine);
  }
  for (const Curve& curve : result.curves) lines += curve_json(result, curve);
  for (const Sensitivity& one : result.sensitivities) {
    PricedJson object = opening(result, "sensitivity");
    object["axis"] = one.axis;
    object["factor"] = 1.0 + result.share;
    object["deployment"] = one.deployment;
    object["throughput"] = name_of(one.basis);
    object["ratio_low"] = one.low;
    object["ratio_high"] = one.high;
    lines.append(object.dump()).append(kNewLine);
  }
  return lines;
}

std::string csv_of(const DollarsResult& result) {
  if (result.curves.empty()) return rows_csv(result);
  std::string text =
      "prices_of,axis,value,deployment,throughput,samples_per_second,dollars,per_1000_dollars\n";
  for (const Curve& curve : result.curves) {
    for (const CurvePoint& point : curve.points) {
      for (const PricedRow& row : point.rows) {
        text += fmt::format("{},{},{},{},{},{},{},{}\n", result.prices.date(), cell(curve.axis),
                            point.value, cell(row.deployment), cell(name_of(row.basis)),
                            row.samples_per_second, row.bill.total(), row.per_1000_dollars);
      }
    }
  }
  return text;
}

}  // namespace phub::bench
