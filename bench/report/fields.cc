#include "bench/report/fields.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "common/text/table.h"

namespace phub::bench::report {
namespace {

bool fits(const Record& value) {
  return value.is_number() && std::abs(value.get<double>()) <= kMostNumber;
}

template <typename Show>
std::string shown(const Record& record, const char* field, const Show& show) {
  const std::optional<double> value = number_in(record, field);
  return value ? show(*value) : kAbsent;
}

}  // namespace

std::optional<double> number_in(const Record& record, const char* field) {
  const auto found = record.find(field);
  if (found == record.end() || !fits(*found)) return std::nullopt;
  return found->get<double>();
}

std::vector<double> numbers_in(const Record& record, const char* field) {
  std::vector<double> numbers;
  const auto found = record.find(field);
  if (found == record.end() || !found->is_array()) return numbers;
  for (const Record& value : *found) {
    if (fits(value)) numbers.push_back(value.get<double>());
  }
  return numbers;
}

std::string word_in(const Record& record, const char* field) {
  const auto found = record.find(field);
  return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_true(const Record& record, const char* field) {
  const auto found = record.find(field);
  return found != record.end() && *found == true;
}

std::string time_in(const Record& record, const char* field) {
  return shown(record, field, time_of);
}

std::string count_in(const Record& record, const char* field) {
  return shown(record, field, count_of);
}

std::string bytes_in(const Record& record, const char* field) {
  return shown(record, field, [](double value) {
    return value < 0.0 ? kAbsent : human_bytes(static_cast<std::uint64_t>(value));
  });
}

std::string share_in(const Record& record, const char* field) {
  return shown(record, field, human_share);
}

std::string counted_in(const Record& record, const char* field, const char* noun) {
  const char* const ending = number_in(record, field) == 1.0 ? "" : "s";
  return fmt::format("{} {}{}", count_in(record, field), noun, ending);
}

std::string figure_in(const Record& record, const char* field) {
  return shown(record, field, figure_of);
}

std::string yes_in(const Record& record, const char* field) {
  const auto found = record.find(field);
  if (found == record.end() || !found->is_boolean()) return kAbsent;
  return *found == true ? "yes" : "NO";
}

std::string count_of(double value) {
  const bool is_whole = value >= 0.0 && value == std::floor(value) && value <= kMostNumber;
  return is_whole ? human_count(static_cast<std::uint64_t>(value)) : figure_of(value);
}

std::string figure_of(double value) {
  if (!std::isfinite(value)) return kAbsent;
  constexpr double kCounted = 1e3;  // from here on digits behind the point say little
  if (std::abs(value) >= kCounted && std::abs(value) <= kMostNumber) {
    return (value < 0.0 ? "-" : "") +
           human_count(static_cast<std::uint64_t>(std::llround(std::abs(value))));
  }
  return fmt::format("{:.4g}", value);
}

std::string time_of(double seconds) {
  if (seconds < 0.0) return kAbsent;
  if (seconds == 0.0) return "0";
  constexpr double kNext = 0.9995;  // what would be shown as 1000 belongs to the next unit
  double value = seconds;
  const char* unit = "s";
  if (seconds < kNext) value = 1e3 * seconds, unit = "ms";
  if (seconds < 1e-3 * kNext) value = 1e6 * seconds, unit = "us";
  const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, digits, unit);
}

}  // namespace phub::bench::report
