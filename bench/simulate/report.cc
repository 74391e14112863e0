#include "bench/simulate/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "common/text/table.h"

namespace phub::bench::simulate {
namespace {

double efficiency_of(const Iteration& iteration) { return iteration.compute / iteration.seconds; }

nlohmann::ordered_json json_of(const ReportRow& row) {
  const Prediction& p = row.prediction;
  nlohmann::ordered_json object = {{"bench", "simulate"},
                                   {"kind", "predicted"},
                                   {"workers", p.network.workers},
                                   {"racks", p.network.racks()},
                                   {"shape", name_of(p.shape)},
                                   {"policy", name_of(p.policy)},
                                   {"seconds", p.iteration.seconds},
                                   {"compute_seconds", p.iteration.compute},
                                   {"exposed_seconds", p.iteration.exposed},
                                   {"exchange_seconds", p.iteration.exchange},
                                   {"messages", p.iteration.messages.size()},
                                   {"efficiency", efficiency_of(p.iteration)},
                                   {"bound", p.bound}};
  if (row.images_per_second > 0) object["images_per_second"] = row.images_per_second;
  if (row.error) object["error"] = *row.error;
  return object;
}

}  // namespace

std::string json_line(const ReportRow& row) { return json_of(row).dump(); }

// None of the words has a comma.
std::string csv_of(const std::vector<ReportRow>& rows) {
  std::string text;
  for (const ReportRow& row : rows) {
    const auto object = json_of(row);
    std::string names;
    std::string values;
    for (const auto& [name, value] : object.items()) {
      if (!names.empty()) names += ',', values += ',';
      names += name;
      values += value.is_string() ? value.get<std::string>() : value.dump();
    }
    if (text.empty()) text = names + "\n";
    text += values + "\n";
  }
  return text;
}

std::string table_of(const std::vector<ReportRow>& rows) {
  const bool has_images = rows.front().images_per_second > 0;
  const bool has_measured = rows.front().error.has_value();
  std::string titles =
      ">workers|>racks|shape|policy|>iteration|>exposed|>exchange|>messages|>efficiency|bound by";
  if (has_images) titles += "|>images/s";
  if (has_measured) titles += "|>error";
  Table table(titles);
  for (const ReportRow& row : rows) {
    const Prediction& p = row.prediction;
    std::vector<std::string> cells = {
        human_count(p.network.workers),          human_count(p.network.racks()),
        std::string(name_of(p.shape)),           std::string(name_of(p.policy)),
        human_time(p.iteration.seconds),         human_time(p.iteration.exposed),
        human_time(p.iteration.exchange),        human_count(p.iteration.messages.size()),
        human_share(efficiency_of(p.iteration)), p.bound};
    if (has_images) cells.push_back(fmt::format("{:.0f}", row.images_per_second));
    if (has_measured) cells.push_back(fmt::format("{:+.1f} %", 100.0 * row.error.value_or(0.0)));
    table.add(std::move(cells));
  }
  return table.to_string();
}

}  // namespace phub::bench::simulate
