// What of a key's gradients is still to be sent.
//
// In exact arithmetic, of any element: what was sent in all rounds and what is kept back are
// together the sum of its gradients (without momentum). A value without network; belongs to one
// thread. Nothing allocates after it is made.
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
};

class ErrorFeedback {
 public:
  ErrorFeedback(std::size_t elements, const FeedbackOptions& options);

  // A round's gradient comes in. Returns what could be sent now.
  std::span<const float> add(kernels::Source gradient);

  // So much of an element was sent, as the server reads it.
  void sent(std::size_t element, float value);

  std::span<const float> rest() const { return rest_; }

 private:
  FeedbackOptions options_;
  std::vector<float> rest_;
  std::vector<float> velocity_;  // empty: no momentum
};

}  // namespace phub::compress
