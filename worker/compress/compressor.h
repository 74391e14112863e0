// Turns a worker's gradients into what it pushes of them: in the place of each chunk that is
// smaller so, a sparse push (common/protocol/sparse_push.h) or one in few bits
// (kernels/quantise.h).
//
// Knows the plan and no network. Belongs to one thread. Nothing allocates after it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/dtype.h"
#include "common/plan/plan.h"
#include "common/protocol/keys.h"
#include "worker/compress/compress_options.h"
#include "worker/compress/error_feedback.h"

namespace phub::compress {

class Compressor {
 public:
  // The plan outlives it. REQUIRES: options.is_on().
  Compressor(const Plan& plan, std::span<const KeySpec> keys, DataType wire_type,
             const CompressOptions& options);

  // Replaces the key's gradient in the arena by what is pushed of it.
  void compress(KeyId key, std::byte* arena);

  // Bytes of each chunk's push, by chunk: of all of it where its key was not compressed yet. Where
  // it is does not change.
  std::span<const std::uint32_t> push_bytes() const { return push_bytes_; }

  bool is_dense(KeyId key) const { return !keys_[key].feedback; }
  // Of a key's next push.
  double density(KeyId key) const;
  // What is kept back of a key that is not dense.
  std::span<const float> rest(KeyId key) const { return keys_[key].feedback->rest(); }

 private:
  struct Key {
    std::optional<ErrorFeedback> feedback;  // nothing: it is pushed whole
    std::uint32_t rounds = 0;
  };

  // Of a key: where a chunk of it is.
  struct Part {
    std::uint64_t offset = 0;  // in the key
    std::uint32_t elements = 0;
    std::byte* place = nullptr;
  };

  std::size_t select(KeyId key, std::span<const float> values);
  // These return the bytes of the push. The values become what the server reads.
  std::uint32_t write_some(const Part& part, std::span<const std::uint32_t> indices, float* values,
                           Key& key);
  std::uint32_t write_quantised(const Part& part, Key& key);
  std::uint32_t write_all(const Part& part, Key& key);

  const Plan& plan_;
  const DataType type_;
  const CompressOptions options_;
  std::vector<Key> keys_;
  std::vector<std::uint32_t> push_bytes_;
  std::vector<std::uint32_t> indices_;  // that are selected, in the key
  std::vector<float> values_;           // the same, then as the server reads them
  std::vector<std::uint32_t> scratch_;  // of the selector
};

}  // namespace phub::compress
