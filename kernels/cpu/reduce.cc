#include "kernels/reduce.h"

#include <cstring>

#include "common/base/check.h"

// This file is compiled once for every instruction set by including itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/measure-inl.h"
#include "kernels/cpu/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phub::kernels::HWY_NAMESPACE {

// A sum of two is the rule "sum" over two sources.
void add_any(float* out, Source first, Source second, std::size_t elements) {
  const Source sources[] = {first, second};
  update_rule<RuleKind::kSum, false>({.sources = sources, .elements = elements, .parameters = out});
}

template <class D>
HWY_INLINE void add_to_average_at(D d, float* average, const float* value, float share) {
  const auto old = hn::LoadU(d, average);
  const auto apart = hn::Sub(hn::LoadU(d, value), old);
  hn::StoreU(hn::Add(old, hn::Mul(hn::Set(d, share), apart)), d, average);
}

void add_to_average_any(float* averages, const float* values, float share, std::size_t elements) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= elements; i += lanes) add_to_average_at(d, averages + i, values + i, share);
  const hn::CappedTag<float, 1> d1;
  for (; i < elements; ++i) add_to_average_at(d1, averages + i, values + i, share);
}

}  // namespace phub::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phub::kernels {

HWY_EXPORT(add_any);
HWY_EXPORT(update_any);
HWY_EXPORT(update_and_look_any);
HWY_EXPORT(lamb_direction_any);
HWY_EXPORT(convert_any);
HWY_EXPORT(sum_of_squares_any);
HWY_EXPORT(all_finite_any);
HWY_EXPORT(add_to_average_any);

void add(float* out, Source first, Source second, std::size_t elements) {
  HWY_DYNAMIC_DISPATCH(add_any)(out, first, second, elements);
}

namespace {
void check([[maybe_unused]] const Update& arguments) {
  PHUB_DCHECK(!arguments.sources.empty() && arguments.sources.size() <= kMaxSources,
              "an update has from 1 to kMaxSources sources");
  PHUB_DCHECK(arguments.parameters != nullptr || arguments.elements == 0, "nowhere to write");
  PHUB_DCHECK(
      arguments.state != nullptr || state_arrays(arguments.rule) == 0 || arguments.elements == 0,
      "the rule needs state");
  PHUB_DCHECK(arguments.adaptive != nullptr || !is_adaptive(arguments.rule),
              "the rule needs its factors");
}
}  // namespace

void update(const Update& arguments) {
  check(arguments);
  HWY_DYNAMIC_DISPATCH(update_any)(arguments);
}

bool update_and_look(const Update& arguments) {
  check(arguments);
  return HWY_DYNAMIC_DISPATCH(update_and_look_any)(arguments);
}

void lamb_direction(const Update& arguments, float* direction) {
  check(arguments);
  PHUB_DCHECK(arguments.sources.size() == 1 && arguments.sources[0].type == DataType::kFloat32,
              "a direction is of one fp32 source");
  HWY_DYNAMIC_DISPATCH(lamb_direction_any)(arguments, direction);
}

double sum_of_squares(const float* values, std::size_t elements) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares_any)(values, elements);
}

void add_to_average(float* averages, const float* values, float share, std::size_t elements) {
  HWY_DYNAMIC_DISPATCH(add_to_average_any)(averages, values, share, elements);
}

bool all_finite(Source source, std::size_t elements) {
  return HWY_DYNAMIC_DISPATCH(all_finite_any)(source, elements);
}

// Seldom called, and on arrays that have one: a look at blocks, then at one block's elements.
std::size_t first_not_finite(Source source, std::size_t elements) {
  constexpr std::size_t kBlock = 512;
  const auto from = [&](std::size_t i) {
    return Source{source.data + i * size_of(source.type), source.type};
  };
  std::size_t i = 0;
  while (i + kBlock <= elements && all_finite(from(i), kBlock)) i += kBlock;
  while (i < elements && all_finite(from(i), 1)) ++i;
  return i;
}

void convert(std::byte* dst, DataType dst_type, const std::byte* src, DataType src_type,
             std::size_t elements) {
  if (dst_type != src_type) {
    HWY_DYNAMIC_DISPATCH(convert_any)(dst, dst_type, {src, src_type}, elements);
  } else if (elements > 0) {
    std::memmove(dst, src, elements * size_of(src_type));
  }
}

}  // namespace phub::kernels
#endif  // HWY_ONCE
