#include "server/chunks/racks/rack_compression.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/reduce.h"
#include "kernels/sparse.h"

namespace phub::server {
namespace {

constexpr std::size_t kZerosAtOnce = 16;  // elements that are looked at together

std::vector<std::uint64_t> elements_by_key(const Plan& plan) {
  std::vector<std::uint64_t> elements(plan.key_offset.size());
  for (const Segment& segment : plan.segments) elements[segment.key] += segment.elements;
  return elements;
}

kernels::Source source_of(std::span<const float> values) {
  return {std::as_bytes(values).data(), DataType::kFloat32};
}

// As it travels: -0 is something.
bool is_nothing(const float* values, std::size_t count) {
  std::uint32_t any = 0;
  for (std::size_t i = 0; i < count; ++i) any |= std::bit_cast<std::uint32_t>(values[i]);
  return any == 0;
}

}  // namespace

RackCompression::RackCompression(const JobLayout& layout, std::uint32_t core,
                                 const std::vector<std::byte*>& places)
    : options_(layout.rack_compress) {
  const Plan& plan = *layout.plan;
  const std::vector<std::uint64_t> key_elements = elements_by_key(plan);
  for (const std::uint32_t id : plan.core_chunks[layout.server_index][core]) {
    const Chunk& chunk = plan.chunks[id];
    const std::uint64_t elements = key_elements[plan.segments[chunk.first_segment].key];
    chunks_.push_back({.place = places[chunks_.size()],
                       .is_sparse = options_.is_on() && chunk.segment_count == 1 &&
                                    elements >= options_.dense_below});
  }
  indices_.resize(plan.max_chunk_elements);
  values_.resize(plan.max_chunk_elements);
  scratch_.resize(kernels::scratch_of(options_.selector, plan.max_chunk_elements));
}

void RackCompression::keep_back(std::span<float> sum, std::span<const float> rest,
                                std::span<float> next, std::uint64_t round) {
  if (options_.error_feedback) {
    kernels::add(sum.data(), source_of(sum), source_of(rest), sum.size());
  }
  const double wanted =
      std::round(static_cast<double>(options_.density) * static_cast<double>(sum.size()));
  const auto count = std::min(sum.size(), static_cast<std::size_t>(std::max(1.0, wanted)));
  kernels::select(options_.selector, sum, count, {indices_.data(), values_.data()}, scratch_,
                  {.draw = static_cast<std::uint32_t>(round)});
  if (options_.error_feedback) {
    std::copy(sum.begin(), sum.end(), next.begin());
    for (std::size_t i = 0; i < count; ++i) next[indices_[i]] = 0.0F;
    if (!kernels::all_finite(source_of(next), next.size())) {
      for (float& left : next) left = std::isfinite(left) ? left : 0.0F;
    }
  }
  std::fill(sum.begin(), sum.end(), 0.0F);
  for (std::size_t i = 0; i < count; ++i) sum[indices_[i]] = values_[i];
}

// Its bytes.
std::uint32_t RackCompression::write(std::byte* to, std::span<const float> sum) {
  const std::size_t elements = sum.size();
  std::uint32_t count = 0;
  bool is_smaller = wire::is_smaller_sparse(0, elements, DataType::kFloat32);
  for (std::size_t i = 0; i < elements && is_smaller; i += kZerosAtOnce) {
    const std::size_t end = std::min(elements, i + kZerosAtOnce);
    if (is_nothing(sum.data() + i, end - i)) continue;
    for (std::size_t j = i; j < end; ++j) {
      if (!is_nothing(&sum[j], 1)) indices_[count++] = static_cast<std::uint32_t>(j);
    }
    is_smaller = wire::is_smaller_sparse(count, elements, DataType::kFloat32);
  }
  if (!is_smaller) {
    std::memcpy(to, sum.data(), sum.size_bytes());
    return static_cast<std::uint32_t>(sum.size_bytes());
  }
  const wire::SparsePlace place = wire::begin_sparse(to, count);
  std::memcpy(place.indices, indices_.data(), count * sizeof(std::uint32_t));
  for (std::uint32_t i = 0; i < count; ++i) {
    std::memcpy(place.values + i * sizeof(float), &sum[indices_[i]], sizeof(float));
  }
  return static_cast<std::uint32_t>(wire::sparse_bytes(count, DataType::kFloat32));
}

void RackCompression::write_up(std::uint32_t slot, std::span<const float> sum) {
  chunks_[slot].bytes = write(chunks_[slot].place, sum);
}

void RackCompression::write_down(std::uint32_t slot, const Hyper& hyper,
                                 std::span<const float> sum) {
  std::byte* const to = chunks_[slot].place;
  std::memcpy(to, &hyper, sizeof(hyper));
  const std::uint32_t bytes = sum.empty() ? 0 : write(to + sizeof(hyper), sum);
  chunks_[slot].bytes = static_cast<std::uint32_t>(sizeof(hyper)) + bytes;
}

void RackCompression::pass_down(std::uint32_t slot, std::span<const std::byte> reply) {
  std::memcpy(chunks_[slot].place, reply.data(), reply.size());
  chunks_[slot].bytes = static_cast<std::uint32_t>(reply.size());
}

wire::SparseFault RackCompression::read(std::span<const std::byte> bytes, std::span<float> sum) {
  if (bytes.size() == sum.size_bytes()) {
    std::memcpy(sum.data(), bytes.data(), bytes.size());
    return wire::SparseFault::kNone;
  }
  const auto parsed =
      wire::parse_sparse(bytes, DataType::kFloat32, static_cast<std::uint32_t>(sum.size()));
  if (parsed.fault != wire::SparseFault::kNone) return parsed.fault;
  std::fill(sum.begin(), sum.end(), 0.0F);
  for (std::uint32_t i = 0; i < parsed.push.count; ++i) {
    std::memcpy(&sum[parsed.push.indices[i]], parsed.push.values + i * sizeof(float),
                sizeof(float));
  }
  return wire::SparseFault::kNone;
}

}  // namespace phub::server
