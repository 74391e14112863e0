// What the steps of workers wait for, in the workers' own words, and where input is the bound.
//
// Pure functions; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/steps/step_waits.h"
#include "server/phubctl/explain/explain.h"

namespace phub::phubctl {

struct InputBound {
  Reason reason;
  std::vector<std::uint32_t> workers;  // whose input it is, by their indexes
};

// The worker that the round waits for waits itself for its samples, for a tenth of its step or
// longer. In a job with a quorum no worker waits for another, and each is looked at alone.
std::optional<InputBound> input_bound(const control::JobInfo& job);

// The largest share of its step that a worker which holds up the round waits for samples. Nothing:
// no worker says.
std::optional<double> input_share(const control::JobInfo& job);

// A table of the workers with their shares; of those with the largest input share, if there are
// more than `rows`. Empty: nobody says.
std::string steps_text(const control::JobInfo& job, std::size_t rows);
// One object for each worker; of one that does not say, `says` is false.
nlohmann::ordered_json steps_json(const control::JobInfo& job);

}  // namespace phub::phubctl
