// What was predicted of a training before it began, for its metrics.
#pragma once

#include <string>

namespace phub::train {

// Of a step, if gradients travelled so.
struct PredictedEncoding {
  std::string encoding{};
  double step_seconds = 0.0;
  double exchange_seconds = 0.0;
};

}  // namespace phub::train
