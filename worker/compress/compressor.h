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
#include <string>
#include <utility>
#include <vector>

#include "common/base/dtype.h"
#include "common/plan/plan.h"
#include "common/protocol/keys.h"
#include "worker/compress/compress_options.h"
#include "worker/compress/error_feedback.h"
#include "worker/compress/kept_back.h"

namespace phub::compress {

class Compressor {
 public:
  // The plan outlives it. `votes`: workers vote on a loss scale, and a round that is left out
  // leaves nothing. REQUIRES: options.is_on(), and with it key_fault is empty.
  Compressor(const Plan& plan, std::span<const KeySpec> keys, DataType wire_type,
             const CompressOptions& options, bool votes = false);

  // Why a key of so many elements cannot be compressed, and the cure; empty: it can.
  static std::string key_fault(std::uint64_t elements, const CompressOptions& options);

  // Replaces the key's gradient in the arena by what is pushed of it. A chunk with anything that is
  // not finite stays as it is, is pushed whole and leaves what was kept back of it alone.
  void compress(KeyId key, std::byte* arena);

  // Gradients that follow have this loss scale. A key's residual changes with it when the key is
  // compressed next. 0, as at first: none was told.
  void set_loss_scale(float scale) { loss_scale_ = scale; }
  float loss_scale() const { return loss_scale_; }
  // None was told before the keys were compressed, and it was this one.
  void learn_loss_scale(float scale);

  // The key's last push was replied to, and its chunks' updates were left out where
  // was_left_out(chunk) says so: what was sent for them is kept back again. Where workers vote,
  // their residual is as it was before the push. `arena`: as compress left it. A push that is told
  // twice changes nothing the second time.
  template <typename WasLeftOut>
  void replied(KeyId key, const std::byte* arena, WasLeftOut was_left_out) {
    if (!std::exchange(keys_[key].is_under_way, false)) return;
    const std::uint32_t first = plan_.first_chunk[key];
    for (std::uint32_t id = first; id < first + plan_.chunk_count[key]; ++id) {
      if (was_left_out(id)) keep_again(key, id, arena);
    }
  }

  // Bytes of each chunk's push, by chunk: of all of it where its key was not compressed yet. Where
  // it is does not change.
  std::span<const std::uint32_t> push_bytes() const { return push_bytes_; }

  bool is_dense(KeyId key) const { return !keys_[key].feedback; }
  // Of a key's next push.
  double density(KeyId key) const;
  // Returns the residual of a key that is not dense.
  std::span<const float> rest(KeyId key) const { return keys_[key].feedback->rest(); }
  // Of any key, to be read, and written before its first push.
  KeptBack kept_back(KeyId key);

 private:
  struct Key {
    std::optional<ErrorFeedback> feedback;  // nothing: it is pushed whole
    std::uint32_t rounds = 0;
    float loss_scale = 0.0F;    // of the residual
    bool is_under_way = false;  // pushed, and `replied` not called
  };

  // Of a key: where a chunk of it is.
  struct Part {
    std::uint64_t offset = 0;  // in the key
    std::uint32_t elements = 0;
    std::byte* place = nullptr;
  };

  Part part_of(KeyId key, const Chunk& chunk, std::byte* arena) const;
  std::uint32_t dense_bytes(const Chunk& chunk) const {
    return static_cast<std::uint32_t>(chunk.elements * size_of(type_));
  }
  void keep_again(KeyId key, std::uint32_t id, const std::byte* arena);
  std::size_t select(KeyId key, std::span<const float> values);
  // These return the bytes of the push. The values become what the server reads.
  std::uint32_t write_some(const Part& part, std::span<const std::uint32_t> indices, float* values,
                           Key& key);
  std::uint32_t write_quantised(const Part& part, Key& key);
  std::uint32_t write_all(const Part& part, Key& key);

  const Plan& plan_;
  const DataType type_;
  const CompressOptions options_;
  const bool votes_;
  float loss_scale_ = 0.0F;
  std::vector<Key> keys_;
  std::vector<std::uint32_t> push_bytes_;
  std::vector<bool> is_as_it_came_;     // by chunk: its last gradient was not finite
  std::vector<std::uint32_t> indices_;  // that are selected, in the key
  std::vector<float> values_;           // the same, then as the server reads them
  std::vector<std::uint32_t> scratch_;  // of the selector
};

}  // namespace phub::compress
