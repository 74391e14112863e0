// Each rack of a job is copied at moments of its own.
#include "tests/simulation/rack_copies.h"

#include "tests/simulation/racks_job.h"

namespace phub::simulation {

// A job that somebody harmed is not copied: its rounds need not end.
std::string RacksJob::copy_some() {
  if (failed_ || is_spoilt()) return {};
  const bool are_over = is_done();
  for (std::uint32_t index = 0; index < racks(); ++index) {
    const Rack& rack = racks_[index];
    if (rack.detached) continue;
    const std::string wrong = are_over ? rack.copies->end(*rounds_, options_.rounds)
                                       : rack.copies->step(random_, *rounds_);
    if (wrong.empty()) continue;
    return "job " + std::to_string(id()) + ", rack " + std::to_string(index) + ": " + wrong;
  }
  return {};
}

}  // namespace phub::simulation
