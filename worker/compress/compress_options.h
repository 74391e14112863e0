// How much of its gradients a worker pushes.
#pragma once

#include <cstdint>

#include "common/base/encoding.h"

namespace phub {

struct CompressOptions {
  Encoding encoding = Encoding::kDense;  // as they are; the same at each worker, and the job's
  // Of a key's elements, those that a sparse push carries, rounded, and at least one.
  float density = 0.01F;
  std::uint64_t dense_below = 4096;  // keys with fewer elements are pushed whole
  bool error_feedback = true;        // what is not pushed is added to the next gradient; else lost
  float momentum = 0.0F;             // of the worker's gradients, before they are selected from
  // So many rounds the density goes down to `density`, from a quarter, by the same factor in each.
  std::uint32_t warm_up_rounds = 0;
  Selector selector = Selector::kHistogram;

  bool is_on() const { return encoding != Encoding::kDense; }
  bool operator==(const CompressOptions&) const = default;
};

}  // namespace phub
