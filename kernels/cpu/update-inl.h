// Sums of several streams with the update rule applied in the same pass, for the instruction set
// that is being compiled. Included once for each by reduce.cc.
//
// A block is kBlockVectors vectors of each stream: the loads of different streams overlap, and
// a block's sources are read before anything of it is written, so outputs may be inputs.
#if defined(PHUB_KERNELS_UPDATE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHUB_KERNELS_UPDATE_INL_H
#undef PHUB_KERNELS_UPDATE_INL_H
#else
#define PHUB_KERNELS_UPDATE_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/base/rule.h"
#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/measure-inl.h"
#include "kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace phub::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kBlockVectors = 4;
// What is published is converted tile by tile, while the tile is in the first-level cache.
inline constexpr std::size_t kTileElements = 1024;

template <class D>
struct Coefficients {
  Coefficients(D d, const Update& u)
      : scale(hn::Set(d, u.hyper.gradient_scale)),
        rate(hn::Set(d, u.hyper.learning_rate)),
        local_rate(hn::Mul(rate, hn::Set(d, u.trust))),
        momentum(hn::Set(d, u.hyper.momentum)),
        decay(hn::Set(d, u.weight_decay)) {}

  hn::Vec<D> scale;
  hn::Vec<D> rate;
  hn::Vec<D> local_rate;
  hn::Vec<D> momentum;
  hn::Vec<D> decay;
};

template <class D>
struct AdaptiveCoefficients {
  AdaptiveCoefficients(D d, const Update& u)
      : keep_mean(hn::Set(d, u.adaptive->keep_mean)),
        add_mean(hn::Set(d, u.adaptive->add_mean)),
        keep_square(hn::Set(d, u.adaptive->keep_square)),
        add_square(hn::Set(d, u.adaptive->add_square)),
        rate(hn::Set(d, u.adaptive->rate)),
        root_scale(hn::Set(d, u.adaptive->root_scale)),
        epsilon(hn::Set(d, u.adaptive->epsilon)),
        decay(hn::Set(d, u.weight_decay)),
        kept(hn::Set(d, decoupled_decay(u.hyper.learning_rate, u.weight_decay))),
        scale(hn::Set(d, u.hyper.gradient_scale)) {}

  hn::Vec<D> keep_mean;
  hn::Vec<D> add_mean;
  hn::Vec<D> keep_square;
  hn::Vec<D> add_square;
  hn::Vec<D> rate;
  hn::Vec<D> root_scale;
  hn::Vec<D> epsilon;
  hn::Vec<D> decay;
  hn::Vec<D> kept;
  hn::Vec<D> scale;
};

template <RuleKind kRule, class D>
using CoefficientsOf = std::conditional_t<is_adaptive(kRule) && kRule != RuleKind::kLamb,
                                          AdaptiveCoefficients<std::remove_const_t<D>>,
                                          Coefficients<std::remove_const_t<D>>>;

template <bool kAllFloat32, class D>
HWY_INLINE hn::Vec<D> load_source(D d, const Source& source, std::size_t index) {
  if constexpr (kAllFloat32) {
    return hn::LoadU(d, reinterpret_cast<const float*>(source.data) + index);
  } else {
    return load_as(d, source, index);
  }
}

// The vector at `index`: new parameter out of the summed gradient; updates the state.
template <RuleKind kRule, class D>
HWY_INLINE hn::Vec<D> apply(D d, const Update& u, const Coefficients<D>& k, hn::Vec<D> sum,
                            std::size_t index) {
  if constexpr (kRule == RuleKind::kSum) return sum;
  if constexpr (kRule == RuleKind::kLamb) {
    return hn::Sub(hn::LoadU(d, u.parameters + index), hn::Mul(k.local_rate, sum));
  }
  const auto gradient = hn::Mul(sum, k.scale);
  if constexpr (kRule == RuleKind::kMean) return gradient;
  const auto weight = hn::LoadU(d, u.parameters + index);
  const auto decayed = hn::Add(gradient, hn::Mul(k.decay, weight));
  if constexpr (kRule == RuleKind::kSgd) {
    return hn::Sub(weight, hn::Mul(k.rate, decayed));
  } else if constexpr (kRule == RuleKind::kLars) {
    const auto kept = hn::Mul(k.momentum, hn::LoadU(d, u.state + index));
    const auto velocity = hn::Add(kept, hn::Mul(k.local_rate, decayed));
    hn::StoreU(velocity, d, u.state + index);
    return hn::Sub(weight, velocity);
  } else {
    const auto velocity = hn::Add(hn::Mul(k.momentum, hn::LoadU(d, u.state + index)), decayed);
    hn::StoreU(velocity, d, u.state + index);
    if constexpr (kRule == RuleKind::kMomentum) {
      return hn::Sub(weight, hn::Mul(k.rate, velocity));
    } else {
      const auto direction = hn::Add(decayed, hn::Mul(k.momentum, velocity));
      return hn::Sub(weight, hn::Mul(k.rate, direction));
    }
  }
}

template <class D>
HWY_INLINE hn::Vec<D> adam_change(D d, const Update& u, const AdaptiveCoefficients<D>& k,
                                  hn::Vec<D> gradient, std::size_t index) {
  float* const means = u.state + index;
  float* const squares = means + u.state_stride;
  const auto mean =
      hn::Add(hn::Mul(k.keep_mean, hn::LoadU(d, means)), hn::Mul(k.add_mean, gradient));
  const auto square = hn::Add(hn::Mul(k.keep_square, hn::LoadU(d, squares)),
                              hn::Mul(k.add_square, hn::Mul(gradient, gradient)));
  hn::StoreU(mean, d, means);
  hn::StoreU(square, d, squares);
  const auto root = hn::Mul(hn::Sqrt(square), k.root_scale);
  return hn::Mul(k.rate, hn::Div(mean, hn::Add(root, k.epsilon)));
}

template <RuleKind kRule, class D>
HWY_INLINE hn::Vec<D> apply(D d, const Update& u, const AdaptiveCoefficients<D>& k, hn::Vec<D> sum,
                            std::size_t index) {
  const auto gradient = hn::Mul(sum, k.scale);
  const auto weight = hn::LoadU(d, u.parameters + index);
  if constexpr (kRule == RuleKind::kAdamW) {
    return hn::Sub(hn::Mul(weight, k.kept), adam_change(d, u, k, gradient, index));
  }
  const auto decayed = hn::Add(hn::Mul(k.decay, weight), gradient);
  if constexpr (kRule == RuleKind::kAdam) {
    return hn::Sub(weight, adam_change(d, u, k, decayed, index));
  } else {
    const auto square = hn::Add(hn::LoadU(d, u.state + index), hn::Mul(decayed, decayed));
    hn::StoreU(square, d, u.state + index);
    const auto quotient = hn::Div(decayed, hn::Add(hn::Sqrt(square), k.epsilon));
    return hn::Sub(weight, hn::Mul(k.rate, quotient));
  }
}

template <class D>
HWY_INLINE void lamb_direction_at(D d, const Update& u, const AdaptiveCoefficients<D>& k,
                                  float* direction, std::size_t index) {
  const auto gradient = hn::Mul(load_source<true>(d, u.sources[0], index), k.scale);
  const auto decay = hn::Mul(k.decay, hn::LoadU(d, u.parameters + index));
  hn::StoreU(hn::Add(adam_change(d, u, k, gradient, index), decay), d, direction + index);
}

inline void lamb_direction_any(const Update& u, float* direction) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  const AdaptiveCoefficients<std::remove_const_t<decltype(d)>> k(d, u);
  std::size_t i = 0;
  for (; i + lanes <= u.elements; i += lanes) lamb_direction_at(d, u, k, direction, i);
  const hn::CappedTag<float, 1> d1;
  const AdaptiveCoefficients<std::remove_const_t<decltype(d1)>> k1(d1, u);
  for (; i < u.elements; ++i) lamb_direction_at(d1, u, k1, direction, i);
}

template <RuleKind kRule, bool kAllFloat32, std::size_t kVectors, class D>
HWY_INLINE void update_block(D d, const Update& u, const CoefficientsOf<kRule, D>& k,
                             std::size_t index) {
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> value[kVectors];
  HWY_UNROLL(8)
  for (std::size_t j = 0; j < kVectors; ++j) {
    value[j] = load_source<kAllFloat32>(d, u.sources[0], index + j * lanes);
  }
  for (std::size_t s = 1; s < u.sources.size(); ++s) {
    HWY_UNROLL(8)
    for (std::size_t j = 0; j < kVectors; ++j) {
      value[j] = hn::Add(value[j], load_source<kAllFloat32>(d, u.sources[s], index + j * lanes));
    }
  }
  HWY_UNROLL(8)
  for (std::size_t j = 0; j < kVectors; ++j) {
    value[j] = apply<kRule>(d, u, k, value[j], index + j * lanes);
  }
  HWY_UNROLL(8)
  for (std::size_t j = 0; j < kVectors; ++j) {
    hn::StoreU(value[j], d, u.parameters + index + j * lanes);
  }
}

// Elements from `begin` to `end`.
template <RuleKind kRule, bool kAllFloat32>
void update_range(const Update& u, std::size_t begin, std::size_t end) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  // Conversions bound mixed sources, and unrolling them would only make the code large.
  constexpr std::size_t kVectors = kAllFloat32 ? kBlockVectors : 1;
  const std::size_t block = kVectors * lanes;
  const CoefficientsOf<kRule, decltype(d)> k(d, u);
  std::size_t i = begin;
  for (; i + block <= end; i += block) {
    update_block<kRule, kAllFloat32, kVectors>(d, u, k, i);
  }
  if constexpr (kVectors > 1) {
    for (; i + lanes <= end; i += lanes) update_block<kRule, kAllFloat32, 1>(d, u, k, i);
  }
  const hn::CappedTag<float, 1> d1;
  const CoefficientsOf<kRule, decltype(d1)> k1(d1, u);
  for (; i < end; ++i) update_block<kRule, kAllFloat32, 1>(d1, u, k1, i);
}

// With kLooks it works tile by tile and looks at each tile of new parameters; else it returns true.
template <RuleKind kRule, bool kLooks>
bool update_rule(const Update& u) {
  bool all_float32 = true;
  for (const Source& source : u.sources) all_float32 &= source.type == DataType::kFloat32;
  const auto range = all_float32 ? &update_range<kRule, true> : &update_range<kRule, false>;
  if (!kLooks && u.published == nullptr) {
    range(u, 0, u.elements);
    return true;
  }
  const std::size_t element_bytes = size_of(u.published_type);
  bool finite = true;
  for (std::size_t begin = 0; begin < u.elements; begin += kTileElements) {
    const std::size_t end = HWY_MIN(begin + kTileElements, u.elements);
    const Source tile = {reinterpret_cast<const std::byte*>(u.parameters + begin),
                         DataType::kFloat32};
    range(u, begin, end);
    if (!kLooks || u.published != nullptr) {
      convert_any(u.published + begin * element_bytes, u.published_type, tile, end - begin);
    }
    if constexpr (kLooks) finite &= all_finite_any(tile, end - begin);
  }
  return finite;
}

template <bool kLooks>
inline bool update_as_rule(const Update& u) {
  switch (u.rule) {
    case RuleKind::kSum:
      return update_rule<RuleKind::kSum, kLooks>(u);
    case RuleKind::kMean:
      return update_rule<RuleKind::kMean, kLooks>(u);
    case RuleKind::kSgd:
      return update_rule<RuleKind::kSgd, kLooks>(u);
    case RuleKind::kMomentum:
      return update_rule<RuleKind::kMomentum, kLooks>(u);
    case RuleKind::kNesterov:
      return update_rule<RuleKind::kNesterov, kLooks>(u);
    case RuleKind::kLars:
      return update_rule<RuleKind::kLars, kLooks>(u);
    case RuleKind::kAdam:
      return update_rule<RuleKind::kAdam, kLooks>(u);
    case RuleKind::kAdamW:
      return update_rule<RuleKind::kAdamW, kLooks>(u);
    case RuleKind::kAdagrad:
      return update_rule<RuleKind::kAdagrad, kLooks>(u);
    case RuleKind::kLamb:
      return update_rule<RuleKind::kLamb, kLooks>(u);
  }
  return true;
}

inline void update_any(const Update& u) { update_as_rule<false>(u); }
inline bool update_and_look_any(const Update& u) { return update_as_rule<true>(u); }

}  // namespace phub::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PHUB_KERNELS_UPDATE_INL_H
