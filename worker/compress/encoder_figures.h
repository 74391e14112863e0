// What an encoding does with a worker's gradients: bytes, and what it takes on this CPU.
//
// Functions of the calling thread, which is busy for some passes over the gradients.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/dtype.h"
#include "common/plan/plan.h"
#include "common/protocol/keys.h"
#include "worker/compress/compress_options.h"

namespace phub::compress {

// Of all keys, in a step. Bytes follow from plan and options alone.
struct EncoderFigures {
  std::uint64_t dense_bytes = 0;  // of all chunks
  std::uint64_t push_bytes = 0;
  // Of replies that have only what the pushes of so many workers can change; at most those that are
  // whole.
  std::uint64_t sparse_reply_bytes = 0;
  double encode_seconds = 0.0;  // dense: none
  double add_seconds = 0.0;     // that one core of this CPU takes to add up such a push
};

// Encodes gradients of noise. `options` may be dense; of a warm-up the end counts.
EncoderFigures measure_encoder(const Plan& plan, std::span<const KeySpec> keys, DataType wire_type,
                               CompressOptions options, std::uint32_t workers);

// All of a plan's chunks.
std::uint64_t dense_bytes(const Plan& plan, DataType wire_type);

}  // namespace phub::compress
