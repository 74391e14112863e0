#include "common/job/workers.h"

#include <fmt/format.h>

#include <utility>

#include "common/job/invalid.h"

namespace phub {
namespace {

// The gradient_scale that makes the job a mean over its workers.
float mean_scale_for(const JobSpec& spec) {
  return gradient_scale_of({.workers = spec.workers, .rule = spec.rule});
}

std::string rack_workers_text(const JobSpec& spec) {
  std::string text;
  for (const RackSpec& rack : spec.racks) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", rack.name, rack.workers);
  }
  return text;
}

}  // namespace

Result<WithWorkers> with_workers(JobSpec spec, std::uint32_t workers) {
  const std::uint32_t before = spec.workers;
  WithWorkers changed{.spec = std::move(spec)};
  if (workers == 0 || workers == before) return changed;
  JobSpec& now = changed.spec;
  if (!now.racks.empty()) {
    return invalid(
        "workers: the job's are those of its racks ({}), and what racks keep back belongs to them; "
        "leave it out, and start as many in each rack",
        rack_workers_text(now));
  }
  const bool is_mean = now.hyper.gradient_scale == mean_scale_for(now);
  const bool is_default =
      is_elastic(now.rule) && now.hyper.learning_rate == default_elasticity(before);
  now.workers = workers;
  if (is_mean) now.hyper.gradient_scale = mean_scale_for(now);
  if (is_default) now.hyper.learning_rate = default_elasticity(workers);
  if (!is_mean && now.hyper.gradient_scale != 0.0F) {
    changed.notes.push_back(
        fmt::format("gradient_scale: {} is not 1 / workers and stays, so the sum of {} workers is "
                    "multiplied with it in place of that of {}",
                    now.hyper.gradient_scale, workers, before));
  }
  if (now.encoding != Encoding::kDense) {
    changed.notes.push_back(fmt::format(
        "encoding {}: what each worker kept back of its gradients is beside its own checkpoint; {}",
        name_of(now.encoding),
        workers > before
            ? fmt::format("workers {} to {} begin without", before, workers - 1)
            : fmt::format("that of workers {} to {} is dropped", workers, before - 1)));
  }
  changed.notes.push_back(
      fmt::format("its workers were {} and are {}: a step has another global batch, and steps "
                  "count on from where they were",
                  before, workers));
  return changed;
}

}  // namespace phub
