#include "common/cost/compression.h"

#include <algorithm>

namespace phub::cost {

PredictedStep predict(const TrainingStep& training, const EncodedGradients& dense,
                      const EncodedGradients& encoded) {
  const ExchangeFigures& figures = training.exchange;
  const double reply_byte = std::min(figures.reply_byte, figures.dense_byte);
  // Nothing, where what comes back takes as long anyway.
  const double push_byte = figures.dense_byte - reply_byte;
  const double travels =
      std::max(figures.dense_byte * encoded.push_bytes,
               push_byte * encoded.push_bytes + reply_byte * encoded.reply_bytes);
  const double adds = std::max(0.0, encoded.add_seconds - dense.add_seconds) * training.workers;
  const double exchange = figures.latency + travels + adds;
  return {.step = std::max(training.compute_seconds + encoded.encode_seconds, exchange),
          .exchange = exchange};
}

EncodingChoice choose_encoding(const TrainingStep& training,
                               std::span<const EncodedGradients> candidates) {
  EncodingChoice choice;
  const EncodedGradients& dense = candidates.front();
  for (const EncodedGradients& each : candidates) {
    choice.predicted.push_back(predict(training, dense, each));
  }
  const PredictedStep& of_dense = choice.predicted.front();
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const PredictedStep& own = choice.predicted[i];
    const bool is_faster = own.step <= of_dense.step * (1.0 - kLeastGain);
    const bool is_faster_in_turn =
        own.exchange + candidates[i].encode_seconds < of_dense.exchange + dense.encode_seconds;
    if (!is_faster || !is_faster_in_turn) continue;
    if (own.step < choice.predicted[choice.chosen].step) choice.chosen = i;
  }
  return choice;
}

}  // namespace phub::cost
