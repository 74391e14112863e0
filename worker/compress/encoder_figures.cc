#include "worker/compress/encoder_figures.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "common/protocol/sparse_push.h"
#include "kernels/quantise.h"
#include "kernels/reduce.h"
#include "kernels/sparse.h"
#include "worker/compress/compressor.h"

namespace phub::compress {
namespace {

constexpr int kPasses = 2;  // of which the first one touches all memory

// Many small values, and few large ones, as gradients have.
float noise(std::uint64_t i, std::uint32_t pass) {
  auto mixed = static_cast<std::uint32_t>((i + 1) * 2654435761U + (pass + 1) * 40503U);
  mixed = (mixed ^ (mixed >> 16U)) * 2246822519U;
  mixed ^= mixed >> 13U;
  const float uniform = static_cast<float>(mixed >> 8U) * 0x1p-23F - 1.0F;  // -1 to 1
  return uniform * uniform * uniform * 1e-2F;
}

template <typename Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::uint32_t bytes_of(const Chunk& chunk, DataType type) {
  return static_cast<std::uint32_t>(chunk.elements * size_of(type));
}

// A worker's gradients, and the chunks that are pushed of them.
class Pushes {
 public:
  Pushes(const Plan& plan, DataType type, Encoding encoding)
      : plan_(plan),
        type_(type),
        encoding_(encoding),
        arena_((plan.arena_elements * size_of(type) + sizeof(float) - 1) / sizeof(float)),
        sum_(plan.max_chunk_elements) {}

  std::byte* arena() { return reinterpret_cast<std::byte*>(arena_.data()); }

  void fill(std::uint32_t pass) {
    std::vector<float> values(plan_.max_chunk_elements);
    for (const Chunk& chunk : plan_.chunks) {
      for (std::uint32_t i = 0; i < chunk.elements; ++i) {
        values[i] = noise(chunk.arena_offset + i, pass);
      }
      kernels::convert(place_of(chunk), type_, reinterpret_cast<const std::byte*>(values.data()),
                       DataType::kFloat32, chunk.elements);
    }
  }

  // As a server does.
  void add(const Chunk& chunk, std::uint32_t bytes) {
    const std::byte* const push = place_of(chunk);
    if (bytes == bytes_of(chunk, type_)) {
      kernels::add(sum_.data(), {reinterpret_cast<std::byte*>(sum_.data()), DataType::kFloat32},
                   {push, type_}, chunk.elements);
    } else if (encoding_ == Encoding::kSparse) {
      const wire::SparsePush some = wire::sparse_at(push);
      kernels::scatter_add(sum_.data(), some.indices, {some.values, type_}, some.count);
    } else {
      kernels::add_quantised({sum_.data(), chunk.elements}, push, kernels::bits_of(encoding_));
    }
  }

 private:
  std::byte* place_of(const Chunk& chunk) { return arena() + chunk.arena_offset * size_of(type_); }

  const Plan& plan_;
  const DataType type_;
  const Encoding encoding_;
  std::vector<float> arena_;
  std::vector<float> sum_;
};

// At most: no two workers push the same element.
std::uint64_t sparse_reply_of(const Chunk& chunk, std::uint32_t push_bytes, DataType type,
                              std::uint32_t workers) {
  const std::uint32_t dense = bytes_of(chunk, type);
  if (push_bytes == dense) return dense;
  const std::uint64_t some = (push_bytes - wire::sparse_bytes(0, type)) /
                             (wire::sparse_bytes(1, type) - wire::sparse_bytes(0, type));
  return std::min<std::uint64_t>(dense, wire::sparse_bytes(workers * some, type));
}

}  // namespace

std::uint64_t dense_bytes(const Plan& plan, DataType wire_type) {
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : plan.chunks) bytes += bytes_of(chunk, wire_type);
  return bytes;
}

EncoderFigures measure_encoder(const Plan& plan, std::span<const KeySpec> keys, DataType wire_type,
                               CompressOptions options, std::uint32_t workers) {
  EncoderFigures figures{.dense_bytes = dense_bytes(plan, wire_type)};
  options.warm_up_rounds = 0;
  std::vector<std::uint32_t> bytes;
  for (const Chunk& chunk : plan.chunks) bytes.push_back(bytes_of(chunk, wire_type));
  Pushes pushes(plan, wire_type, options.encoding);
  std::optional<Compressor> compressor;
  if (options.is_on()) compressor.emplace(plan, keys, wire_type, options);
  for (int pass = 0; pass < kPasses; ++pass) {
    pushes.fill(static_cast<std::uint32_t>(pass));
    if (compressor) {
      figures.encode_seconds = seconds_of([&] {
        for (KeyId key = 0; key < keys.size(); ++key) compressor->compress(key, pushes.arena());
      });
      std::ranges::copy(compressor->push_bytes(), bytes.begin());
    }
    figures.add_seconds = seconds_of([&] {
      for (std::size_t i = 0; i < bytes.size(); ++i) pushes.add(plan.chunks[i], bytes[i]);
    });
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const Chunk& chunk = plan.chunks[i];
    figures.push_bytes += bytes[i];
    figures.sparse_reply_bytes += options.encoding == Encoding::kSparse
                                      ? sparse_reply_of(chunk, bytes[i], wire_type, workers)
                                      : bytes_of(chunk, wire_type);
  }
  return figures;
}

}  // namespace phub::compress
