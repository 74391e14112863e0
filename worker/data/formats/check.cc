#include "worker/data/formats/check.h"

#include <algorithm>
#include <array>

namespace phub::data {
namespace {

constexpr std::array<std::uint8_t, 3> kJpeg = {0xFF, 0xD8, 0xFF};
constexpr std::array<std::uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

bool begins_with(std::span<const std::uint8_t> bytes, std::span<const std::uint8_t> start) {
  return bytes.size() >= start.size() && std::equal(start.begin(), start.end(), bytes.begin());
}

Status look_at(std::span<const std::uint8_t> bytes, const Look& look) {
  if (!begins_with(bytes, kJpeg) && !begins_with(bytes, kPng)) {
    return {Code::kDataLoss, "it begins neither as JPEG nor as PNG; replace or remove it"};
  }
  return look ? look(bytes) : Status();
}

}  // namespace

Result<CheckReport> check(const SampleSet& set, const OnProgress& on_progress, const Look& look) {
  CheckReport report;
  report.by_class.resize(set.classes().size());
  std::vector<std::uint8_t> buffer;
  const std::uint64_t samples = set.samples();
  while (goes_on(on_progress, {.samples = report.samples, .of = samples, .bytes = report.bytes})) {
    if (report.samples == samples) return report;
    const std::uint64_t sample = report.samples++;
    ++report.by_class[set.label(sample)];
    const auto bytes = set.read(sample, buffer);
    std::string damage;
    if (!bytes) {
      if (bytes.error().code() == Code::kUnavailable) return bytes.error();
      damage = bytes.error().message();
    } else {
      report.bytes += bytes->size();
      const Status seen = look_at(*bytes, look);
      if (seen.ok()) continue;
      damage = set.name(sample) + ": " + seen.message();
    }
    ++report.damaged;
    if (report.damages.size() < kMaxDamages) report.damages.push_back(std::move(damage));
  }
  return Status(Code::kAborted, "stopped after " + std::to_string(report.samples) + " of " +
                                    std::to_string(samples) + " samples");
}

}  // namespace phub::data
