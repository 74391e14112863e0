// What the parameters of a job are whose racks push each other sums of 16 bits, by which rack is
// the root of an element's chunk: one oracle for each.
//
// Sums of other racks are rounded on their way to the root, each with the residual of the rounds
// before. The root's own sum is not. So an element is right if it is, round after round, what one
// and the same root makes of it. A tolerance for rounding would be as large as the rounding is, up
// to 2^-8 of a sum, and would hide a residual that is lost or counted twice.
//
// REQUIRES: at most two racks, so that no sum is rounded twice. A test's thread.
#pragma once

#include <cmath>
#include <vector>

#include "tests/numerics/racks_oracle.h"

namespace phub::testing {

// The nearest number that has `bits` significant bits; of two the even one. REQUIRES: no subnormal.
inline double rounded_to(int bits, double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

// The sums of one round as a root has them. A rack's first worker stands for its sum, the others
// for nothing.
class RoundedSums {
 public:
  RoundedSums(const RandomJob& job, std::uint32_t root) : job_(job), root_(root) {
    for (std::uint32_t rack = 0; rack < job.spec.racks.size(); ++rack) {
      auto& residuals = residuals_.emplace_back();
      for (const KeySpec& key : job.spec.keys) residuals.emplace_back(key.elements);
    }
  }
  // Once for each in a round.
  double take(std::uint32_t worker, KeyId key, std::uint64_t i, const JobOracle::Value& pushed) {
    const std::uint32_t rack = job_.rack_of(worker);
    const std::uint32_t first = job_.first_worker(rack);
    if (rack == root_) return pushed(worker, key, i);
    if (worker != first) return 0.0;
    double& residual = residuals_[rack][key][i];
    for (std::uint32_t own = 0; own < job_.spec.racks[rack].workers; ++own) {
      residual += pushed(first + own, key, i);
    }
    const int bits = job_.spec.rack_wire_type == DataType::kBfloat16 ? 8 : 11;
    const double sent = rounded_to(bits, residual);
    residual -= sent;
    return sent;
  }

 private:
  const RandomJob& job_;
  const std::uint32_t root_;
  std::vector<std::vector<std::vector<double>>> residuals_;  // by rack, key and element
};

class RootsOracle {
 public:
  explicit RootsOracle(const RandomJob& job)
      : rounds_(job.spec.rack_wire_type != DataType::kFloat32),
        roots_(rounds_ ? static_cast<std::uint32_t>(job.spec.racks.size()) : 1) {
    for (std::uint32_t root = 0; root < roots_; ++root) {
      oracles_.emplace_back(job);
      sums_.emplace_back(job, root);
    }
    for (const KeySpec& key : job.spec.keys) may_be_.emplace_back(key.elements, (1U << roots_) - 1);
  }

  void set_rate(float learning_rate) {
    for (RacksOracle& oracle : oracles_) oracle.set_rate(learning_rate);
  }
  void initialise(const JobOracle::Value& value) {
    for (RacksOracle& oracle : oracles_) oracle.initialise(value);
  }
  void round(std::uint32_t round, const JobOracle::Value& pushed) {
    for (std::uint32_t root = 0; root < roots_; ++root) {
      oracles_[root].round(round, [&](std::uint32_t worker, KeyId key, std::uint64_t i) {
        return rounds_ ? sums_[root].take(worker, key, i, pushed) : pushed(worker, key, i);
      });
    }
  }
  // Whether a root that every value of the element so far was right for makes this of it, to
  // `tolerance` of it and of 1/2.
  bool is_right(std::uint32_t rack, KeyId key, std::uint64_t i, double value, double tolerance) {
    unsigned& roots = may_be_[key][i];
    for (std::uint32_t root = 0; root < roots_; ++root) {
      const double wanted = oracles_[root].parameter(rack, key, i);
      const bool is_near = std::abs(value - wanted) <= tolerance * (std::abs(wanted) + 0.5);
      if (!is_near) roots &= ~(1U << root);
    }
    return roots != 0;
  }
  // With the first rack as the root.
  double parameter(std::uint32_t rack, KeyId key, std::uint64_t i) const {
    return oracles_[0].parameter(rack, key, i);
  }

 private:
  const bool rounds_;
  const std::uint32_t roots_;
  std::vector<RacksOracle> oracles_;  // by root
  std::vector<RoundedSums> sums_;
  std::vector<std::vector<unsigned>> may_be_;  // by key and element: a bit for each root
};

}  // namespace phub::testing
