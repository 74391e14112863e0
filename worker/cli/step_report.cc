#include "worker/cli/step_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace phub {
namespace {

double roof_of(const StepSubject& subject, const nn::DeviceProfile& profile,
               const nn::StepTime& step) {
  const double memory = static_cast<double>(step.bytes) / profile.bytes_per_second;
  const double arithmetic =
      subject.peak_flops > 0.0 ? static_cast<double>(step.flops) / subject.peak_flops : 0.0;
  return std::max(memory, arithmetic) / step.seconds;
}

double seconds_of(const nn::DeviceProfile& profile, std::string_view pass) {
  double sum = 0.0;
  for (const nn::StepTime& step : profile.steps) sum += step.pass == pass ? step.seconds : 0.0;
  return sum;
}

double all_seconds(const nn::DeviceProfile& profile) {
  return seconds_of(profile, "forward") + seconds_of(profile, "backward");
}

}  // namespace

std::string step_table(const StepSubject& subject, const nn::DeviceProfile& profile) {
  std::size_t width = 4;
  for (const nn::StepTime& step : profile.steps) width = std::max(width, step.name.size());
  const double all = all_seconds(profile);
  std::string text =
      fmt::format("{}, {}, batch {}, medians of {} passes; {:.0f} GB/s is a copy on the device\n",
                  subject.model, subject.compute_type, subject.batch, subject.passes,
                  1e-9 * profile.bytes_per_second);
  text += fmt::format("{:<{}}  {:>10} {:>7} {:>8} {:>9} {:>6}\n", "step", width, "us", "share",
                      "GB/s", "TFLOP/s", "roof");
  for (const nn::StepTime& step : profile.steps) {
    text += fmt::format("{:<{}}  {:>10.1f} {:>5.1f} % {:>8.0f} {:>9.2f} {:>4.0f} %\n", step.name,
                        width, 1e6 * step.seconds, 100.0 * step.seconds / all,
                        1e-9 * static_cast<double>(step.bytes) / step.seconds,
                        1e-12 * static_cast<double>(step.flops) / step.seconds,
                        100.0 * roof_of(subject, profile, step));
  }
  return text + fmt::format("forward {:.3f} ms, backward {:.3f} ms: {:.0f} images/s by these\n",
                            1e3 * seconds_of(profile, "forward"),
                            1e3 * seconds_of(profile, "backward"), subject.batch / all);
}

nlohmann::ordered_json step_json(const StepSubject& subject, const nn::DeviceProfile& profile) {
  nlohmann::ordered_json object = {
      {"profile", "steps"},
      {"model", subject.model},
      {"compute_type", subject.compute_type},
      {"batch", subject.batch},
      {"passes", subject.passes},
      {"copy_bytes_per_second", profile.bytes_per_second},
      {"forward_seconds", seconds_of(profile, "forward")},
      {"backward_seconds", seconds_of(profile, "backward")},
      {"images_per_second", subject.batch / all_seconds(profile)},
  };
  if (subject.peak_flops > 0.0) object["peak_flops"] = subject.peak_flops;
  for (const nn::StepTime& step : profile.steps) {
    object["steps"].push_back({{"name", step.name},
                               {"pass", step.pass},
                               {"seconds", step.seconds},
                               {"bytes", step.bytes},
                               {"flops", step.flops},
                               {"roof", roof_of(subject, profile, step)}});
  }
  return object;
}

}  // namespace phub
