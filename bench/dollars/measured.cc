#include "bench/dollars/measured.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "bench/base/statistics.h"
#include "bench/dollars/price_file.h"
#include "common/base/dtype.h"
#include "common/base/whole_file.h"

namespace phub::bench {
namespace {

using nlohmann::json;

constexpr double kMillisOfSeconds = 1e3;

Status refuse(const std::string& what) { return {Code::kInvalidArgument, "--measured: " + what}; }

std::optional<double> number_in(const std::string& text) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

Result<std::vector<json>> read_lines(const std::string& path) {
  PHUB_RETURN_IF_ERROR(check_readable_to_end(path));
  std::ifstream file(path);
  if (!file) return refuse(path + " cannot be read; give a number or a file of JSON lines");
  std::vector<json> lines;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    json object = json::parse(line, nullptr, false);
    if (!object.is_object()) return refuse(fmt::format("{}:{}: is no JSON object", path, number));
    lines.push_back(std::move(object));
  }
  return lines;
}

double number_of(const json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
}

std::string word_of(const json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Whether an exchange is the one that the deployment makes.
Status check_exchange(const json& line, const std::string& path, const PriceFile& prices,
                      const Deployment& deployment) {
  for (const auto& [field, wanted] :
       {std::pair("bench", "exchange"), std::pair("system", "phub")}) {
    const std::string word = word_of(line, field);
    if (word == wanted) continue;
    return refuse(
        fmt::format("{}: {} is \"{}\", and \"{}\" is wanted; take phub's line of "
                    "phub-bench exchange --json",
                    path, field, word, wanted));
  }
  if (!prices.has_workload()) return refuse(path + ": an exchange needs a workload in the prices");
  const double workers = 1.0 * deployment.workers() * deployment.racks();
  if (number_of(line, "workers") != workers) {
    return refuse(fmt::format("{}: workers is {}, and \"{}\" has {}", path,
                              number_of(line, "workers"), deployment.name(), workers));
  }
  const std::optional<DataType> type = parse_data_type(word_of(line, "dtype"));
  const double bytes =
      type ? number_of(line, "elements") * static_cast<double>(size_of(*type)) : 0.0;
  if (bytes != static_cast<double>(prices.workload().model_bytes())) {
    return refuse(fmt::format("{}: elements and dtype make {:.0f} bytes, and model_bytes is {}",
                              path, bytes, prices.workload().model_bytes()));
  }
  const auto verified = line.find("verified");
  if (verified == line.end() || *verified != true) {
    return refuse(path + ": verified is not true; measure again");
  }
  return {};
}

Status set_from_file(const std::string& path, const PriceFile& prices, Deployment& deployment) {
  PHUB_ASSIGN_OR_RETURN(const std::vector<json> lines, read_lines(path));
  std::vector<json> exchanges;
  std::vector<double> rates;
  for (const json& line : lines) {
    if (number_of(line, "seconds_p50") > 0.0) exchanges.push_back(line);
    const bool is_epoch = word_of(line, "event") == "epoch";
    if (is_epoch && number_of(line, "images_per_second") > 0.0) {
      rates.push_back(number_of(line, "images_per_second"));
    }
  }
  MeasuredThroughput measured;
  measured.set_source(path);
  if (exchanges.size() == 1 && rates.empty()) {
    PHUB_RETURN_IF_ERROR(check_exchange(exchanges.front(), path, prices, deployment));
    measured.set_exchange_ms(number_of(exchanges.front(), "seconds_p50") * kMillisOfSeconds);
  } else if (exchanges.empty() && !rates.empty()) {
    measured.set_samples_per_second(median(rates));
  } else {
    return refuse(
        fmt::format("{}: has {} lines with seconds_p50 and {} epochs with "
                    "images_per_second; leave one line of an exchange, or epochs only",
                    path, exchanges.size(), rates.size()));
  }
  *deployment.mutable_measured() = measured;
  return {};
}

}  // namespace

Status set_measured(const std::string& words, PriceFile& prices) {
  const std::size_t equals = words.find('=');
  if (equals == std::string::npos) {
    return refuse(
        fmt::format("\"{}\" has no =; write DEPLOYMENT=NUMBER or DEPLOYMENT=FILE", words));
  }
  const std::string name = words.substr(0, equals);
  const std::string value = words.substr(equals + 1);
  for (Deployment& deployment : *prices.mutable_deployment()) {
    if (deployment.name() != name) continue;
    if (!is_priced(deployment)) return refuse(fmt::format("\"{}\" is a published figure", name));
    const std::optional<double> number = number_in(value);
    if (!number) return set_from_file(value, prices, deployment);
    if (!std::isfinite(*number) || *number <= 0.0) {
      return refuse(fmt::format("{} samples a second; write a number above 0", value));
    }
    deployment.mutable_measured()->Clear();
    deployment.mutable_measured()->set_samples_per_second(*number);
    deployment.mutable_measured()->set_source("--measured");
    return {};
  }
  std::vector<std::string> names;
  for (const Deployment& deployment : prices.deployment()) names.push_back(deployment.name());
  return refuse(fmt::format("\"{}\" is no deployment of the file; it has \"{}\"", name,
                            fmt::join(names, "\", \"")));
}

}  // namespace phub::bench
