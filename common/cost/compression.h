// Whether a step is faster if gradients are compressed, and in which encoding: predicted from what
// the links, the servers and this CPU's encoder take.
//
// Two things go on at the same time: gradients are computed and encoded, and what is pushed and
// replied travels. Links are full duplex, or not: what a byte costs on its way there, beside one
// that comes back, is measured. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/encoding.h"

namespace phub::cost {

// Of a job's links and servers, when all workers exchange at once. Seconds.
struct ExchangeFigures {
  double latency = 0.0;     // of an exchange of hardly any bytes
  double dense_byte = 0.0;  // for each byte, if as many are pushed as come back
  double reply_byte = 0.0;  // for each byte that comes back, if hardly any are pushed
};

// All gradients of a worker in one encoding.
struct EncodedGradients {
  Encoding encoding = Encoding::kDense;
  double push_bytes = 0.0;
  double reply_bytes = 0.0;
  double encode_seconds = 0.0;  // of a worker's step
  double add_seconds = 0.0;     // that one core takes to add up a worker's push
};

struct TrainingStep {
  ExchangeFigures exchange;
  double compute_seconds = 0.0;  // of a step, without an exchange
  std::uint32_t workers = 1;
};

// Seconds.
struct PredictedStep {
  double step = 0.0;      // the longer of compute with encoding, and exchange
  double exchange = 0.0;  // with what a server adds up for longer than dense pushes
};

PredictedStep predict(const TrainingStep& training, const EncodedGradients& dense,
                      const EncodedGradients& encoded);

// What is predicted to gain less stays dense: so far predictions are to be trusted, and what is
// compressed is learned later.
inline constexpr double kLeastGain = 0.05;

struct EncodingChoice {
  std::size_t chosen = 0;  // of the candidates
  std::vector<PredictedStep> predicted;
};

// The fastest of the candidates, of which the first is dense. Another one has to be faster than it
// by kLeastGain, and also where nothing overlaps. Of equal ones the first.
// REQUIRES: at least one.
EncodingChoice choose_encoding(const TrainingStep& training,
                               std::span<const EncodedGradients> candidates);

}  // namespace phub::cost
