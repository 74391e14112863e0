// What both measurements of steps are made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/samples/random.h"
#include "worker/nn/executor.h"

namespace phub::train {

// One batch of noise with any labels, over and over.
struct NoiseBatch {
  NoiseBatch(const nn::Executor& network, std::uint64_t seed)
      : images(network.input_elements()), labels(network.batch()) {
    CounterRandom random(seed, Purpose::kSynthetic, 0, 0);
    for (float& pixel : images) pixel = 2.0F * random.uniform() - 1.0F;
    const std::size_t classes =
        std::min<std::size_t>(network.output_elements() / labels.size(), 65'536);
    for (auto& label : labels) label = static_cast<nn::Label>(random.below(classes));
  }

  std::vector<float> images;
  std::vector<nn::Label> labels;
};

// REQUIRES: at least one.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace phub::train
