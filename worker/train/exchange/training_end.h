// The planned end of a job, as its exchange knows it: all workers stop after the same step.
//
// The defaults are those of one process alone: it ends as soon as it is asked to. Belongs to the
// exchange's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace phub::train {

class TrainingEnd {
 public:
  TrainingEnd() = default;
  TrainingEnd(const TrainingEnd&) = delete;
  TrainingEnd& operator=(const TrainingEnd&) = delete;
  virtual ~TrainingEnd() = default;

  // Asks for the end. `reason` is for people.
  virtual Status end(const std::string& reason) {
    ending_ = reason;
    return {};
  }
  // The reason why the end was asked for, here or by another worker. Empty: nobody has asked.
  virtual std::string ending() const { return ending_; }
  // Whether the last of the `steps` made was the job's last one. Asked after each step's pushes.
  // May wait for other workers. `ahead`: see Client::is_last.
  virtual Result<bool> is_last(std::uint64_t /*steps*/, std::uint32_t /*ahead*/ = 2) {
    return !ending_.empty();
  }
  // The step that the workers agreed on. Nothing: they have not, or the exchange has no common one.
  virtual std::optional<std::uint64_t> last_step() const { return std::nullopt; }

 private:
  std::string ending_;
};

}  // namespace phub::train
