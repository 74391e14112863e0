// What a job's parameters are after each round in which every worker has a push, in fp64 and by the
// formulas of common/base/rule.h alone: no code of the product's computes them.
//
// A test's thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "common/job/spec.h"

namespace phub::testing {

class JobOracle {
 public:
  // A worker's push of one element, before it is scaled.
  using Value = std::function<double(std::uint32_t worker, KeyId key, std::uint64_t i)>;

  explicit JobOracle(const JobSpec& spec) : spec_(spec), hyper_(spec.hyper) {
    hyper_.gradient_scale = gradient_scale_of(spec);
    for (const KeySpec& key : spec.keys) {
      keys_.push_back({.parameters = std::vector<double>(key.elements),
                       .first = std::vector<double>(key.elements),
                       .second = std::vector<double>(key.elements),
                       .gradient = std::vector<double>(key.elements)});
    }
  }

  void set_rate(float learning_rate) { hyper_.learning_rate = learning_rate; }

  // Worker 0's values.
  void initialise(const Value& value) {
    for (KeyId key = 0; key < keys_.size(); ++key) {
      for (std::uint64_t i = 0; i < keys_[key].parameters.size(); ++i) {
        keys_[key].parameters[i] = value(0, key, i);
      }
    }
  }

  void round(const Value& pushed) {
    ++updates_;
    for (KeyId key = 0; key < keys_.size(); ++key) {
      for (std::uint64_t i = 0; i < keys_[key].gradient.size(); ++i) {
        double& sum = keys_[key].gradient[i];
        sum = 0.0;
        for (std::uint32_t worker = 0; worker < spec_.workers; ++worker) {
          sum += pushed(worker, key, i);
        }
        if (!is_elastic(spec_.rule)) sum *= static_cast<double>(hyper_.gradient_scale);
      }
    }
    if (spec_.clip_norm > 0.0F) clip();
    for (KeyId key = 0; key < keys_.size(); ++key) update(keys_[key], spec_.keys[key]);
  }

  double parameter(KeyId key, std::uint64_t i) const { return keys_[key].parameters[i]; }
  void set_parameter(KeyId key, std::uint64_t i, double value) { keys_[key].parameters[i] = value; }

 private:
  struct Key {
    std::vector<double> parameters, first, second, gradient;
  };

  static double norm(const std::vector<double>& values) {
    double squares = 0.0;
    for (const double value : values) squares += value * value;
    return std::sqrt(squares);
  }

  void clip() {
    double squares = 0.0;
    for (const Key& key : keys_) squares += std::pow(norm(key.gradient), 2);
    const double share =
        std::min(1.0, static_cast<double>(spec_.clip_norm) / (std::sqrt(squares) + 1e-6));
    for (Key& key : keys_) {
      for (double& gradient : key.gradient) gradient *= share;
    }
  }

  double trust_of(const Key& key, const KeySpec& about) const {
    const double parameters = norm(key.parameters);
    const double gradients = norm(key.gradient);
    if (about.exclude_from_lars || parameters == 0.0 || gradients == 0.0) return 1.0;
    const LarsOptions lars = lars_of(spec_);
    return static_cast<double>(lars.coefficient) * parameters /
           (gradients + static_cast<double>(about.weight_decay) * parameters +
            static_cast<double>(lars.epsilon));
  }

  // Rules adam, adamw and lamb take the mean over the root of the mean square, both corrected.
  double direction(Key& key, std::uint64_t i, double gradient) const {
    const AdaptiveOptions options = adaptive_of(spec_);
    double& mean = key.first[i];
    double& square = key.second[i];
    mean = options.beta1 * mean + (1.0 - options.beta1) * gradient;
    square = options.beta2 * square + (1.0 - options.beta2) * gradient * gradient;
    const double times = updates_;
    return mean / (1.0 - std::pow(options.beta1, times)) /
           (std::sqrt(square / (1.0 - std::pow(options.beta2, times))) + options.epsilon);
  }

  void update_lamb(Key& key, const KeySpec& about) const {
    std::vector<double> directions(key.parameters.size());
    for (std::uint64_t i = 0; i < directions.size(); ++i) {
      directions[i] = direction(key, i, key.gradient[i]) +
                      static_cast<double>(about.weight_decay) * key.parameters[i];
    }
    const double parameters = norm(key.parameters);
    const double length = norm(directions);
    const bool is_plain = about.exclude_from_lars || parameters == 0.0 || length == 0.0;
    const double rate =
        static_cast<double>(hyper_.learning_rate) * (is_plain ? 1.0 : parameters / length);
    for (std::uint64_t i = 0; i < directions.size(); ++i) {
      key.parameters[i] -= rate * directions[i];
    }
  }

  void update(Key& key, const KeySpec& about) const {
    if (spec_.rule == RuleKind::kLamb) return update_lamb(key, about);
    const double trust = spec_.rule == RuleKind::kLars ? trust_of(key, about) : 1.0;
    for (std::uint64_t i = 0; i < key.parameters.size(); ++i) step(key, i, about, trust);
  }

  void step(Key& key, std::uint64_t i, const KeySpec& about, double trust) const {
    const double rate = hyper_.learning_rate;
    const double keep = hyper_.momentum;
    double& w = key.parameters[i];
    double& velocity = key.first[i];
    const double decay = about.weight_decay;
    const double decayed = key.gradient[i] + decay * w;
    switch (spec_.rule) {
      case RuleKind::kSum:
      case RuleKind::kMean:
        w = key.gradient[i];
        break;
      case RuleKind::kElastic:
        w += rate * (key.gradient[i] - static_cast<double>(spec_.workers) * w);
        break;
      case RuleKind::kSgd:
        w -= rate * decayed;
        break;
      case RuleKind::kMomentum:
        velocity = keep * velocity + decayed;
        w -= rate * velocity;
        break;
      case RuleKind::kNesterov:
        velocity = keep * velocity + decayed;
        w -= rate * (decayed + keep * velocity);
        break;
      case RuleKind::kLars:
        velocity = keep * velocity + rate * trust * decayed;
        w -= velocity;
        break;
      case RuleKind::kAdam:
        w -= rate * direction(key, i, decayed);
        break;
      case RuleKind::kAdamW: {
        const double change = direction(key, i, key.gradient[i]);
        w = w * (1.0 - rate * decay) - rate * change;
        break;
      }
      case RuleKind::kAdagrad:
        velocity += decayed * decayed;
        w -= rate * decayed / (std::sqrt(velocity) + adaptive_of(spec_).epsilon);
        break;
      case RuleKind::kLamb:
        break;  // update_lamb
    }
  }

  JobSpec spec_;
  Hyper hyper_;
  double updates_ = 0.0;
  std::vector<Key> keys_;
};

}  // namespace phub::testing
