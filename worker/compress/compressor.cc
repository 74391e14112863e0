#include "worker/compress/compressor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/protocol/sparse_push.h"
#include "kernels/quantise.h"
#include "kernels/sparse.h"

namespace phub::compress {
namespace {

constexpr double kFirstDensity = 0.25;  // of a warm-up: DGC's

// A chunk of one key is one that nobody else's gradient waits for.
bool has_own_chunks(const Plan& plan, KeyId key) {
  const auto first = plan.chunks.begin() + plan.first_chunk[key];
  return std::all_of(first, first + plan.chunk_count[key],
                     [](const Chunk& chunk) { return chunk.segment_count == 1; });
}

// The largest finite number that travels.
float largest_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 65504.0F;
    case DataType::kBfloat16:
      return 0x1.FEp127F;
    case DataType::kFloat32:
      break;
  }
  return std::numeric_limits<float>::max();
}

}  // namespace

Compressor::Compressor(const Plan& plan, std::span<const KeySpec> keys, DataType wire_type,
                       const CompressOptions& options, bool votes)
    : plan_(plan), type_(wire_type), options_(options), votes_(votes), keys_(keys.size()) {
  for (const Chunk& chunk : plan.chunks) {
    push_bytes_.push_back(dense_bytes(chunk));
  }
  is_as_it_came_.resize(plan.chunks.size());
  std::uint64_t largest = 0;
  for (KeyId key = 0; key < keys.size(); ++key) {
    const std::uint64_t elements = keys[key].elements;
    if (elements < options.dense_below || !has_own_chunks(plan, key)) continue;
    keys_[key].feedback.emplace(elements, FeedbackOptions{.keeps = options.error_feedback,
                                                          .momentum = options.momentum,
                                                          .undoes = votes});
    largest = std::max(largest, elements);
  }
  indices_.resize(largest);
  values_.resize(largest);
  scratch_.resize(kernels::scratch_of(options.selector, largest));
}

std::string Compressor::key_fault(std::uint64_t elements, const CompressOptions& options) {
  constexpr std::uint64_t kLeastTooMany = std::uint64_t{1} << 32U;  // of kernels::select
  if (options.encoding != Encoding::kSparse) return "";
  if (elements < options.dense_below || elements < kLeastTooMany) return "";
  return "has " + std::to_string(elements) +
         " elements, and the largest are selected of fewer than 2^32 together: split the key, or "
         "use encoding int8";
}

double Compressor::density(KeyId key) const {
  const double last = options_.density;
  const std::uint32_t round = keys_[key].rounds;
  if (round >= options_.warm_up_rounds || last >= kFirstDensity) return last;
  const double done = static_cast<double>(round) / options_.warm_up_rounds;
  return kFirstDensity * std::pow(last / kFirstDensity, done);
}

std::size_t Compressor::select(KeyId key, std::span<const float> values) {
  const double wanted = std::round(density(key) * static_cast<double>(values.size()));
  const auto count = std::min(values.size(), static_cast<std::size_t>(std::max(1.0, wanted)));
  kernels::select(options_.selector, values, count, {indices_.data(), values_.data()}, scratch_,
                  {.draw = keys_[key].rounds});
  return count;
}

Compressor::Part Compressor::part_of(KeyId key, const Chunk& chunk, std::byte* arena) const {
  return {.offset = chunk.arena_offset - plan_.key_offset[key],
          .elements = chunk.elements,
          .place = arena + chunk.arena_offset * size_of(type_)};
}

void Compressor::compress(KeyId key, std::byte* arena) {
  Key& own = keys_[key];
  if (!own.feedback) return;
  const bool is_other = own.loss_scale > 0.0F && loss_scale_ > 0.0F;
  if (is_other && own.loss_scale != loss_scale_) {
    own.feedback->rescale(loss_scale_ / own.loss_scale);
  }
  own.loss_scale = loss_scale_;
  own.feedback->begin_round();
  const std::uint32_t begin = plan_.first_chunk[key];
  const std::uint32_t end = begin + plan_.chunk_count[key];
  for (std::uint32_t id = begin; id < end; ++id) {
    const Part part = part_of(key, plan_.chunks[id], arena);
    is_as_it_came_[id] = !own.feedback->add(part.offset, {part.place, type_}, part.elements);
  }
  const bool is_sparse = options_.encoding == Encoding::kSparse;
  const std::size_t count = is_sparse ? select(key, own.feedback->rest()) : 0;
  ++own.rounds;
  own.is_under_way = true;
  std::size_t first = 0;
  for (std::uint32_t id = begin; id < end; ++id) {
    const Chunk& chunk = plan_.chunks[id];
    const Part part = part_of(key, chunk, arena);
    const std::span<const std::uint32_t> left(indices_.data() + first, count - first);
    const auto last = std::lower_bound(left.begin(), left.end(), part.offset + part.elements);
    const auto some = static_cast<std::size_t>(last - left.begin());
    if (is_as_it_came_[id]) {
      push_bytes_[id] = dense_bytes(chunk);
    } else if (!is_sparse) {
      push_bytes_[id] = write_quantised(part, own);
    } else {
      push_bytes_[id] = wire::is_smaller_sparse(some, part.elements, type_)
                            ? write_some(part, left.first(some), values_.data() + first, own)
                            : write_all(part, own);
    }
    first += some;
  }
}

void Compressor::learn_loss_scale(float scale) {
  loss_scale_ = scale;
  for (Key& key : keys_) {
    if (key.loss_scale == 0.0F) key.loss_scale = scale;
  }
}

// As a server adds it up, to nothing.
void Compressor::keep_again(KeyId key, std::uint32_t id, const std::byte* arena) {
  if (is_as_it_came_[id]) return;
  const Chunk& chunk = plan_.chunks[id];
  const std::uint64_t offset = chunk.arena_offset - plan_.key_offset[key];
  if (votes_) return keys_[key].feedback->undo(offset, chunk.elements);
  const std::byte* const push = arena + chunk.arena_offset * size_of(type_);
  const std::span<float> read(values_.data(), chunk.elements);
  ErrorFeedback& feedback = *keys_[key].feedback;
  if (push_bytes_[id] == dense_bytes(chunk)) {
    kernels::convert(std::as_writable_bytes(read).data(), DataType::kFloat32, push, type_,
                     read.size());
  } else {
    std::fill(read.begin(), read.end(), 0.0F);
    if (options_.encoding == Encoding::kSparse) {
      const wire::SparsePush some = wire::sparse_at(push);
      kernels::scatter_add(read.data(), some.indices, {some.values, type_}, some.count);
    } else {
      kernels::add_quantised(read, push, kernels::bits_of(options_.encoding));
    }
  }
  for (std::size_t i = 0; i < read.size(); ++i) feedback.unused(offset + i, read[i]);
}

KeptBack Compressor::kept_back(KeyId key) {
  Key& own = keys_[key];
  if (!own.feedback) return {};
  return {.rest = own.feedback->kept_rest(),
          .velocity = own.feedback->kept_velocity(),
          .rounds = &own.rounds,
          .loss_scale = votes_ ? &own.loss_scale : nullptr};
}

std::uint32_t Compressor::write_quantised(const Part& part, Key& key) {
  const kernels::Bits bits = kernels::bits_of(options_.encoding);
  const std::size_t bytes = kernels::quantised_bytes(part.elements, bits);
  if (bytes >= part.elements * size_of(type_)) return write_all(part, key);
  kernels::quantise(part.place, key.feedback->rest().subspan(part.offset, part.elements), bits);
  const std::span<float> read(values_.data(), part.elements);
  std::fill(read.begin(), read.end(), 0.0F);
  kernels::add_quantised(read, part.place, bits);
  for (std::size_t i = 0; i < read.size(); ++i) key.feedback->sent(part.offset + i, read[i]);
  return static_cast<std::uint32_t>(bytes);
}

std::uint32_t Compressor::write_some(const Part& part, std::span<const std::uint32_t> indices,
                                     float* values, Key& key) {
  const wire::SparsePlace to =
      wire::begin_sparse(part.place, static_cast<std::uint32_t>(indices.size()));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    to.indices[i] = indices[i] - static_cast<std::uint32_t>(part.offset);
  }
  const float most = largest_of(type_);
  for (std::size_t i = 0; i < indices.size(); ++i) values[i] = std::clamp(values[i], -most, most);
  auto* const bytes = reinterpret_cast<std::byte*>(values);
  kernels::convert(to.values, type_, bytes, DataType::kFloat32, indices.size());
  kernels::convert(bytes, DataType::kFloat32, to.values, type_, indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) key.feedback->sent(indices[i], values[i]);
  return static_cast<std::uint32_t>(wire::sparse_bytes(indices.size(), type_));
}

std::uint32_t Compressor::write_all(const Part& part, Key& key) {
  const auto rest = key.feedback->rest().subspan(part.offset, part.elements);
  kernels::convert(part.place, type_, std::as_bytes(rest).data(), DataType::kFloat32,
                   part.elements);
  const bool fits = kernels::all_finite({part.place, type_}, part.elements);
  const float most = largest_of(type_);
  for (std::uint32_t i = 0; i < part.elements; ++i) {
    std::byte* const place = part.place + i * size_of(type_);
    float value = std::clamp(rest[i], -most, most);
    auto* const bytes = reinterpret_cast<std::byte*>(&value);
    if (!fits) kernels::convert(place, type_, bytes, DataType::kFloat32, 1);
    kernels::convert(bytes, DataType::kFloat32, place, type_, 1);
    key.feedback->sent(part.offset + i, value);
  }
  return static_cast<std::uint32_t>(part.elements * size_of(type_));
}

}  // namespace phub::compress
