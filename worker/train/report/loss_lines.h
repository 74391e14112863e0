// What a person is told of workers and racks that the job goes on without, each once.
//
// Owned and called by the trainer's thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/job/spec.h"

namespace phub::train {

class LossLines {
 public:
  explicit LossLines(std::vector<RackSpec> racks) : racks_(std::move(racks)) {}

  // `lost`: all workers that were lost so far. Lines for those of them that are new.
  std::vector<std::string> look(const std::vector<std::uint32_t>& lost);

 private:
  std::vector<RackSpec> racks_;
  std::set<std::uint32_t> told_;
};

}  // namespace phub::train
