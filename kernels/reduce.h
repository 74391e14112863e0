// The arithmetic of the data path: sums over pushes, update rules, conversions.
//
// Pure functions over contiguous arrays; any thread; no allocation. Pointers need only the
// alignment of their element type. Sums are left folds in the order of `sources`, in fp32, without
// fused multiply-add, so every instruction set gives the same bits (see reference.h, the scalar
// specification).
#pragma once

#include <cstddef>
#include <span>

#include "common/base/dtype.h"
#include "common/base/rule.h"
#include "kernels/adaptive.h"

namespace phub::kernels {

struct Source {
  const std::byte* data;
  DataType type;
};

// out[i] = first[i] + second[i]. `out` may be `first.data` when that is fp32.
void add(float* out, Source first, Source second, std::size_t elements);

// out[i] = ((s0[i] + s1[i]) + s2[i]) + ..., one to kMaxSources sources, times `scale`.
// `published`, when not null, also receives the result in `published_type`.
// An output may be the very array of a source of the same type; otherwise nothing overlaps.
// REQUIRES: one to kMaxSources sources.
struct Update {
  std::span<const Source> sources;
  std::size_t elements = 0;
  RuleKind rule = RuleKind::kSum;
  Hyper hyper = {};
  float weight_decay = 0.0F;
  float trust = 1.0F;                      // rules lars, lamb: see kernels/lars.h, lamb.h
  const AdaptiveStep* adaptive = nullptr;  // rules adam, adamw, adagrad, lamb, else null
  float* parameters = nullptr;     // fp32 [elements]: output; for rules with parameters also input
  float* state = nullptr;          // fp32 [elements] for rules with state, else null
  std::size_t state_stride = 0;    // from a state array to the next, of rules with two
  std::byte* published = nullptr;  // [elements] of published_type, or null
  DataType published_type = DataType::kFloat32;
};
inline constexpr std::size_t kMaxSources = 64;

// Sums the sources, scales by hyper.gradient_scale and applies the rule (formulas in
// common/base/rule.h), in one pass: with S sources it reads S + 1 + state streams and writes
// 1 + state (+ 1 published). Of rule lamb the sources are directions, and neither they are scaled
// nor state is read: w -= learning rate * trust * their sum.
void update(const Update& arguments);

// The first pass of rule lamb, of an averaged gradient, one fp32 source: updates the state, and
// direction[i] = rate * m / (root_scale * sqrt(v) + epsilon) + wd * w. `direction` may be the
// source. Nothing else of `arguments` is written.
void lamb_direction(const Update& arguments, float* direction);

// The same, and whether all new parameters are finite. They are not where an element of a source is
// not, whatever the rule and its factors: infinities and NaNs survive sums, and a product of one
// with 0 is a NaN. They also may be not where a sum overflowed, or parameters were not finite.
bool update_and_look(const Update& arguments);

// The sum of the squares, in double: element i is added to partial sum i mod kSquareLanes, and the
// partial sums are then added pairwise, lane l to lane l + n / 2 for n = kSquareLanes, ..., 2. A
// square of an fp32 number is exact in double. The sum is finite if and only if every element is.
inline constexpr std::size_t kSquareLanes = 16;
double sum_of_squares(const float* values, std::size_t elements);

// averages[i] += share * (values[i] - averages[i]): an exponential moving average.
void add_to_average(float* averages, const float* values, float share, std::size_t elements);

// Whether no element is infinite or a NaN.
bool all_finite(Source source, std::size_t elements);

// The index of the first such element; `elements`: there is none.
std::size_t first_not_finite(Source source, std::size_t elements);

// dst[i] = src[i], rounded to nearest even.
void convert(std::byte* dst, DataType dst_type, const std::byte* src, DataType src_type,
             std::size_t elements);

}  // namespace phub::kernels
