// What the kernel tests share: random arrays at any alignment, and comparison bit for bit.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/reduce.h"
#include "kernels/reference.h"
#include "tests/unit/kernels/targets.h"

namespace phub::kernels::test {

inline constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
inline constexpr RuleKind kRules[] = {RuleKind::kSum,      RuleKind::kMean,     RuleKind::kSgd,
                                      RuleKind::kMomentum, RuleKind::kNesterov, RuleKind::kLars,
                                      RuleKind::kAdam,     RuleKind::kAdamW,    RuleKind::kAdagrad,
                                      RuleKind::kLamb,     RuleKind::kElastic};

// Around one vector and one block of every instruction set, and around a chunk.
inline const std::vector<std::size_t> kLengths = {0,  1,  2,  3,  4,  5,  7,  8,    9,    15,  16,
                                                  17, 31, 32, 33, 63, 64, 65, 8191, 8192, 8193};

// `elements` values of a type that begin one element past a 64-byte bound and end at a guard.
class Array {
 public:
  Array(DataType type, std::size_t elements)
      : type_(type), elements_(elements), bytes_((elements + 2) * size_of(type) + 64, kGuard) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    offset_ = (64 - address % 64) % 64 + size_of(type);
  }
  Array(const Array& other) : Array(other.type_, other.elements_) {
    std::memcpy(data(), other.data(), size_bytes());
  }
  Array& operator=(const Array&) = delete;

  std::byte* data() { return bytes_.data() + offset_; }
  const std::byte* data() const { return bytes_.data() + offset_; }
  float* floats() { return reinterpret_cast<float*>(data()); }
  DataType type() const { return type_; }
  std::size_t size_bytes() const { return elements_ * size_of(type_); }
  Source source() const { return {data(), type_}; }

  float value(std::size_t i) const {
    float value = 0.0F;
    reference::convert(reinterpret_cast<std::byte*>(&value), DataType::kFloat32,
                       data() + i * size_of(type_), type_, 1);
    return value;
  }
  void set(std::size_t i, float value) {
    reference::convert(data() + i * size_of(type_), type_, reinterpret_cast<std::byte*>(&value),
                       DataType::kFloat32, 1);
  }

  // Equal in every bit and nothing written outside; two NaNs count as equal.
  bool same_as(const Array& other) const {
    for (std::size_t i = 0; i < elements_; ++i) {
      const std::size_t at = i * size_of(type_);
      if (std::memcmp(data() + at, other.data() + at, size_of(type_)) == 0) continue;
      if (!std::isnan(value(i)) || !std::isnan(other.value(i))) return false;
    }
    return guards_intact() && other.guards_intact();
  }

  bool guards_intact() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const bool outside = i < offset_ || i >= offset_ + size_bytes();
      if (outside && bytes_[i] != kGuard) return false;
    }
    return true;
  }

 private:
  static constexpr std::byte kGuard{0xA5};
  DataType type_;
  std::size_t elements_;
  std::vector<std::byte> bytes_;
  std::size_t offset_ = 0;
};

// Gradients of ordinary size, of both signs, with a few zeros, subnormals, infinities and NaNs.
inline Array random_array(DataType type, std::size_t elements, std::mt19937& random,
                          bool specials = true) {
  constexpr float kSpecials[] = {0.0F,     -0.0F,   1e-40F,   -1e-42F,   3e-8F,
                                 70000.0F, 3.4e38F, INFINITY, -INFINITY, NAN};
  std::normal_distribution<float> normal(0.0F, 2.0F);
  Array array(type, elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const bool special = specials && random() % 64 == 0;
    array.set(i, special ? kSpecials[random() % std::size(kSpecials)] : normal(random));
  }
  return array;
}

// Factors of an adaptive rule, as of a step in the midst of a training.
inline constexpr AdaptiveStep kAdaptive = {.keep_mean = 0.9F,
                                           .add_mean = 0.1F,
                                           .keep_square = 0.999F,
                                           .add_square = 0.001F,
                                           .rate = 0.3F,
                                           .root_scale = 7.0F,
                                           .epsilon = 1e-8F};

// Runs `body` under every instruction set of this machine and lifts the restriction again.
template <typename Body>
void on_every_target(Body body) {
  for (const std::string_view target : supported_targets()) {
    if (!select_target(target)) std::abort();
    body(std::string(target));
  }
  select_target("");
}

}  // namespace phub::kernels::test
