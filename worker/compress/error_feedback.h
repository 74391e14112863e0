// What of a key's gradients is still to be sent.
//
// In exact arithmetic, of any element: what was sent in all rounds and used, and what is kept back,
// are together the sum of its gradients (without momentum). All of it is finite, whatever comes in.
// A value without network; belongs to one thread. Nothing allocates after it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/reduce.h"

namespace phub::compress {

struct FeedbackOptions {
  bool keeps = true;      // what is not sent; else it is dropped when the next gradient comes
  float momentum = 0.0F;  // u = momentum u + gradient is added instead of the gradient
  bool undoes = false;    // a round may be undone, for as much memory again
};

class ErrorFeedback {
 public:
  ErrorFeedback(std::size_t elements, const FeedbackOptions& options);

  // A round begins; its gradient comes in by parts.
  void begin_round();
  // Multiplies the residual: gradients that follow are `by` times as large as those before. Exact
  // for a power of two, within fp32's range. REQUIRES: no round is under way.
  void rescale(float by);
  // The part from element `offset` on. False: not all of it is finite; then nothing has changed.
  bool add(std::size_t offset, kernels::Source gradient, std::size_t elements);

  // So much of an element was sent, as the server reads it.
  void sent(std::size_t element, float value);
  // The same, and the server did not use it: it is kept back again. Not so what is beyond
  // kMostUnused, or sums that are not finite would be again, for ever.
  void unused(std::size_t element, float value);
  static constexpr float kMostUnused = 0x1p100F;
  // Makes the part what it was before the round. REQUIRES: options.undoes.
  void undo(std::size_t offset, std::size_t elements);

  // What could be sent now.
  std::span<const float> rest() const { return rest_; }

  // Of a checkpoint: to be read and, between rounds, written.
  std::span<float> kept_rest() { return rest_; }
  std::span<float> kept_velocity() { return velocity_; }  // empty: no momentum

 private:
  FeedbackOptions options_;
  std::vector<float> rest_;
  std::vector<float> velocity_;                       // empty: no momentum
  std::vector<float> rest_before_, velocity_before_;  // the round; empty: rounds are not undone
};

}  // namespace phub::compress
