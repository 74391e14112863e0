#include "bench/exchange/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/reduce.h"

namespace phub::bench {
namespace {

constexpr std::size_t kTile = 16 * 1024;  // elements

// Twice the rounding step of the type at 1, the bound for 16-bit runs of rules with parameters.
float tolerance(DataType type) {
  constexpr float kFloat16 = 2.0F / 1024.0F;
  constexpr float kBfloat16 = 2.0F / 128.0F;
  return type == DataType::kFloat16 ? kFloat16 : kBfloat16;
}

}  // namespace

Reference::Reference(const Work& work, std::vector<std::uint64_t> key_elements, float weight_decay)
    : work_(work),
      key_elements_(std::move(key_elements)),
      weight_decay_(weight_decay),
      parameters_(kTile),
      sources_(work.workers, std::vector<std::byte>(kTile * size_of(work.dtype))),
      published_(kTile * size_of(work.dtype)) {}

void Reference::start(std::vector<float> parameters) {
  state_.assign(state_arrays(work_.rule) * parameters.size(), 0.0F);
  if (work_.dtype != DataType::kFloat32) start_ = parameters;
  parameters_ = std::move(parameters);
}

void Reference::update_tile(Pattern pattern, const Hyper& hyper, std::uint64_t first,
                            std::size_t length) {
  std::vector<kernels::Source> sources;
  for (std::uint32_t worker = 0; worker < work_.workers; ++worker) {
    std::vector<std::byte>& source = sources_[worker];
    fill_wire({source.data(), length * size_of(work_.dtype)}, work_.dtype, pattern, worker, first);
    sources.push_back({source.data(), work_.dtype});
  }
  const bool whole = has_parameters(work_.rule);
  kernels::update({.sources = sources,
                   .elements = length,
                   .rule = work_.rule,
                   .hyper = hyper,
                   .weight_decay = weight_decay_,
                   .parameters = parameters_.data() + (whole ? first : 0),
                   .state = state_.empty() ? nullptr : state_.data() + first,
                   .published = published_.data(),
                   .published_type = work_.dtype});
}

std::optional<std::uint64_t> Reference::first_difference(std::span<const std::byte> result,
                                                         std::uint64_t first, std::size_t length) {
  if (std::memcmp(result.data(), published_.data(), result.size()) == 0) return std::nullopt;
  const bool exact = work_.dtype == DataType::kFloat32 || !has_parameters(work_.rule);
  const std::vector<float> got = widen(result, work_.dtype);
  const std::vector<float> expected =
      widen({published_.data(), length * size_of(work_.dtype)}, work_.dtype);
  for (std::size_t i = 0; i < length; ++i) {
    float allowed = 0.0F;
    if (!exact) {
      const float size = std::max(std::fabs(expected[i]), std::fabs(start_[first + i]));
      allowed = tolerance(work_.dtype) * (1.0F + size);
    }
    if (!(std::fabs(got[i] - expected[i]) <= allowed)) return first + i;
  }
  return std::nullopt;
}

std::optional<std::string> Reference::step(Pattern pattern, const Hyper& hyper,
                                           std::span<const std::span<const std::byte>> result) {
  std::uint64_t key_start = 0;
  std::optional<std::string> wrong;
  for (std::size_t key = 0; key < key_elements_.size(); ++key) {
    for (std::uint64_t offset = 0; offset < key_elements_[key]; offset += kTile) {
      const std::size_t length = std::min<std::uint64_t>(kTile, key_elements_[key] - offset);
      const std::uint64_t first = key_start + offset;
      update_tile(pattern, hyper, first, length);
      const std::size_t width = size_of(work_.dtype);
      const auto bytes = result[key].subspan(offset * width, length * width);
      const auto difference = first_difference(bytes, first, length);
      if (difference && !wrong) {
        const std::size_t at = *difference - first;
        wrong = fmt::format("key {}, element {}: {}, expected {}", key, offset + at,
                            widen(bytes.subspan(at * width, width), work_.dtype)[0],
                            widen({published_.data() + at * width, width}, work_.dtype)[0]);
      }
    }
    key_start += key_elements_[key];
  }
  return wrong;
}

void fill_wire(std::span<std::byte> out, DataType type, Pattern pattern, std::uint32_t worker,
               std::uint64_t first_index) {
  const std::size_t elements = out.size() / size_of(type);
  if (type == DataType::kFloat32) {
    fill_pattern({reinterpret_cast<float*>(out.data()), elements}, pattern, worker, first_index);
    return;
  }
  std::vector<float> tile(std::min(elements, kTile));
  for (std::size_t first = 0; first < elements; first += kTile) {
    const std::size_t length = std::min(kTile, elements - first);
    fill_pattern({tile.data(), length}, pattern, worker, first_index + first);
    kernels::convert(out.data() + first * size_of(type), type,
                     reinterpret_cast<const std::byte*>(tile.data()), DataType::kFloat32, length);
  }
}

std::vector<float> widen(std::span<const std::byte> bytes, DataType type) {
  std::vector<float> values(bytes.size() / size_of(type));
  kernels::convert(reinterpret_cast<std::byte*>(values.data()), DataType::kFloat32, bytes.data(),
                   type, values.size());
  return values;
}

}  // namespace phub::bench
