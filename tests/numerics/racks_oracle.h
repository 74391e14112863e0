// What the parameters of a job's racks are after each round, in fp64 and by the formulas alone: one
// oracle for all racks, or one for each where they make rounds by themselves.
//
// A test's thread.
#pragma once

#include <vector>

#include "tests/numerics/job_oracle.h"
#include "tests/numerics/random_job.h"

namespace phub::testing {

class RacksOracle {
 public:
  explicit RacksOracle(const RandomJob& job) : job_(job) {
    const JobSpec& spec = job.spec;
    if (!spec.rack_local.is_on()) {
      racks_.emplace_back(spec);
      return;
    }
    for (const RackSpec& rack : spec.racks) {
      JobSpec own = spec;
      own.workers = rack.workers;
      racks_.emplace_back(own);
    }
    for (const KeySpec& key : spec.keys) {
      together_.emplace_back(key.elements);
      velocity_.emplace_back(key.elements);
    }
  }

  void set_rate(float learning_rate) {
    for (JobOracle& rack : racks_) rack.set_rate(learning_rate);
  }
  void initialise(const JobOracle::Value& value) {
    for (JobOracle& rack : racks_) rack.initialise(value);
    for (KeyId key = 0; key < together_.size(); ++key) {
      for (std::uint64_t i = 0; i < together_[key].size(); ++i) {
        together_[key][i] = racks_[0].parameter(key, i);
      }
    }
  }
  void round(std::uint32_t round, const JobOracle::Value& pushed) {
    for (std::uint32_t rack = 0; rack < racks_.size(); ++rack) {
      if (job_.is_skipped(round, rack)) continue;
      const std::uint32_t first = job_.first_worker(rack);
      racks_[rack].round([&](std::uint32_t worker, KeyId key, std::uint64_t i) {
        return pushed(first + worker, key, i);
      });
    }
    if (racks_.size() > 1 && ++rounds_ % job_.spec.rack_local.steps == 0) exchange();
  }
  double parameter(std::uint32_t rack, KeyId key, std::uint64_t i) const {
    return racks_[racks_.size() > 1 ? rack : 0].parameter(key, i);
  }

 private:
  void exchange() {
    const double rate = job_.spec.rack_local.learning_rate;
    const double keep = job_.spec.rack_local.momentum;
    for (KeyId key = 0; key < together_.size(); ++key) {
      for (std::uint64_t i = 0; i < together_[key].size(); ++i) {
        double gradient = 0.0;
        for (const JobOracle& rack : racks_) {
          gradient +=
              (together_[key][i] - rack.parameter(key, i)) / static_cast<double>(racks_.size());
        }
        double& velocity = velocity_[key][i];
        velocity = keep * velocity + gradient;
        together_[key][i] -= rate * (gradient + keep * velocity);
        for (JobOracle& rack : racks_) rack.set_parameter(key, i, together_[key][i]);
      }
    }
  }

  const RandomJob& job_;
  std::vector<JobOracle> racks_;
  std::vector<std::vector<double>> together_, velocity_;  // by key
  std::uint32_t rounds_ = 0;
};

}  // namespace phub::testing
