// Batch normalisation's passes, for the instruction set that is being compiled. Included once for
// each by activations.cc.
//
// A pass goes tile by tile over the pixels, and in a tile by vectors of channels: what belongs to
// the channels stays in registers, the tile's lines in the first-level cache.
#if defined(PHUB_KERNELS_NORMALISE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHUB_KERNELS_NORMALISE_INL_H
#undef PHUB_KERNELS_NORMALISE_INL_H
#else
#define PHUB_KERNELS_NORMALISE_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phub::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <DataType kType, class D>
HWY_INLINE hn::Vec<D> load_at(D d, const std::byte* data, std::size_t index) {
  if constexpr (kType == DataType::kFloat32) {
    return hn::LoadU(d, reinterpret_cast<const float*>(data) + index);
  } else {
    return load_bfloat16(d, reinterpret_cast<const std::uint16_t*>(data) + index);
  }
}

template <DataType kType, class D>
HWY_INLINE void store_at(D d, hn::Vec<D> value, std::byte* data, std::size_t index) {
  if constexpr (kType == DataType::kFloat32) {
    hn::StoreU(value, d, reinterpret_cast<float*>(data) + index);
  } else {
    store_bfloat16(d, value, reinterpret_cast<std::uint16_t*>(data) + index);
  }
}

// 0 where it is below 0; a NaN stays one.
template <class D>
HWY_INLINE hn::Vec<D> relu_of(D d, hn::Vec<D> value) {
  return hn::IfThenZeroElse(hn::Lt(value, hn::Zero(d)), value);
}

// `gradient` where `seen` is above 0, else 0.
template <class D>
HWY_INLINE hn::Vec<D> gradient_behind_relu(D d, hn::Vec<D> gradient, hn::Vec<D> seen) {
  return hn::IfThenElseZero(hn::Gt(seen, hn::Zero(d)), gradient);
}

// Calls pass.run(d, tile's first pixel, one past its last, channel) until all is covered.
template <class D, class Pass>
HWY_INLINE void run_channels(D d, const Pass& pass, std::size_t first, std::size_t end,
                             std::size_t& channel) {
  const std::size_t lanes = hn::Lanes(d);
  for (; channel + lanes <= pass.shape().channels; channel += lanes) {
    pass.run(d, first, end, channel);
  }
}

template <class Pass>
HWY_INLINE void run_tiles(const Pass& pass) {
  const Pixels& shape = pass.shape();
  for (std::size_t first = 0; first < shape.pixels; first += kSumTile) {
    const std::size_t end = HWY_MIN(first + kSumTile, shape.pixels);
    std::size_t channel = 0;
    run_channels(hn::ScalableTag<float>(), pass, first, end, channel);
    run_channels(hn::CappedTag<float, 8>(), pass, first, end, channel);
    run_channels(hn::CappedTag<float, 4>(), pass, first, end, channel);
    run_channels(hn::CappedTag<float, 1>(), pass, first, end, channel);
  }
}

// One tile's sum in four parts.
template <class D>
struct Parts {
  HWY_INLINE explicit Parts(D d) {
    for (auto& part : parts) part = hn::Zero(d);
  }
  HWY_INLINE void add(std::size_t part, hn::Vec<D> value) {
    parts[part] = hn::Add(parts[part], value);
  }
  HWY_INLINE void flush(D d, double* sums) const {
    const auto sum = hn::Add(hn::Add(parts[0], parts[2]), hn::Add(parts[1], parts[3]));
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    hn::Store(sum, d, lanes);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) sums[i] += static_cast<double>(lanes[i]);
  }

  hn::Vec<D> parts[4];
};

template <DataType kType>
struct ChannelSumsPass {
  const ChannelSums& a;

  const Pixels& shape() const { return a.shape; }

  template <class D>
  HWY_INLINE void run(D d, std::size_t first, std::size_t end, std::size_t c) const {
    const auto about = hn::LoadU(d, a.about + c);
    Parts<D> sums(d), squares(d);
    std::size_t i = first;
    for (; i + 4 <= end; i += 4) {
      HWY_UNROLL(4)
      for (std::size_t part = 0; part < 4; ++part) add(d, about, i + part, c, part, sums, squares);
    }
    for (std::size_t part = 0; i < end; ++i, ++part) add(d, about, i, c, part, sums, squares);
    sums.flush(d, a.sums + c);
    squares.flush(d, a.squares + c);
  }

  template <class D>
  HWY_INLINE void add(D d, hn::Vec<D> about, std::size_t pixel, std::size_t c, std::size_t part,
                      Parts<D>& sums, Parts<D>& squares) const {
    const auto centred = hn::Sub(load_at<kType>(d, a.input, pixel * a.shape.channels + c), about);
    sums.add(part, centred);
    squares.add(part, hn::Mul(centred, centred));
  }
};

// A channel's (x - mean) * factor + shift.
template <class D>
struct Scale {
  HWY_INLINE Scale(D d, const ChannelScale& scale, std::size_t c)
      : mean(hn::LoadU(d, scale.mean + c)),
        factor(hn::LoadU(d, scale.factor + c)),
        shift(hn::LoadU(d, scale.shift + c)) {}
  HWY_INLINE hn::Vec<D> of(hn::Vec<D> centred) const {
    return hn::Add(hn::Mul(centred, factor), shift);
  }

  hn::Vec<D> mean, factor, shift;
};

template <DataType kType, bool kRelu, bool kResidual>
struct NormalisePass {
  const Normalise& a;

  const Pixels& shape() const { return a.shape; }

  template <class D>
  HWY_INLINE void run(D d, std::size_t first, std::size_t end, std::size_t c) const {
    const Scale<D> scale(d, a.scale, c);
    for (std::size_t pixel = first; pixel < end; ++pixel) {
      const std::size_t i = pixel * a.shape.channels + c;
      auto value = scale.of(hn::Sub(load_at<kType>(d, a.input, i), scale.mean));
      if constexpr (kResidual) value = hn::Add(value, load_at<kType>(d, a.residual, i));
      if constexpr (kRelu) value = relu_of(d, value);
      store_at<kType>(d, value, a.output, i);
    }
  }
};

// Where a ReLU's mask comes from.
enum class Mask { kNone, kRecomputed, kStored };

template <DataType kType, Mask kMask, class D>
HWY_INLINE hn::Vec<D> masked_gradient(D d, const NormaliseGradient& a, const Scale<D>& scale,
                                      hn::Vec<D> centred, std::size_t i) {
  const auto gradient = load_at<kType>(d, a.output_gradient, i);
  if constexpr (kMask == Mask::kNone) return gradient;
  if constexpr (kMask == Mask::kStored) {
    return gradient_behind_relu(d, gradient, load_at<kType>(d, a.mask, i));
  } else {
    return gradient_behind_relu(d, gradient, scale.of(centred));
  }
}

template <DataType kType, Mask kMask>
struct GradientSumsPass {
  const NormaliseGradient& a;
  double* sums;
  double* products;
  std::byte* masked;

  const Pixels& shape() const { return a.shape; }

  template <class D>
  HWY_INLINE void run(D d, std::size_t first, std::size_t end, std::size_t c) const {
    const Scale<D> scale(d, a.scale, c);
    Parts<D> sum(d), product(d);
    std::size_t pixel = first;
    for (; pixel + 4 <= end; pixel += 4) {
      HWY_UNROLL(4)
      for (std::size_t part = 0; part < 4; ++part) {
        add(d, scale, pixel + part, c, part, sum, product);
      }
    }
    for (std::size_t part = 0; pixel < end; ++pixel, ++part) {
      add(d, scale, pixel, c, part, sum, product);
    }
    sum.flush(d, sums + c);
    product.flush(d, products + c);
  }

  template <class D>
  HWY_INLINE void add(D d, const Scale<D>& scale, std::size_t pixel, std::size_t c,
                      std::size_t part, Parts<D>& sum, Parts<D>& product) const {
    const std::size_t i = pixel * a.shape.channels + c;
    const auto centred = hn::Sub(load_at<kType>(d, a.input, i), scale.mean);
    const auto gradient = masked_gradient<kType, kMask>(d, a, scale, centred, i);
    sum.add(part, gradient);
    product.add(part, hn::Mul(gradient, centred));
    if (masked != nullptr) store_at<kType>(d, gradient, masked, i);
  }
};

template <DataType kType, Mask kMask>
struct NormaliseBackwardPass {
  const NormaliseGradient& a;
  const GradientLine& line;
  std::byte* input_gradient;

  const Pixels& shape() const { return a.shape; }

  template <class D>
  HWY_INLINE void run(D d, std::size_t first, std::size_t end, std::size_t c) const {
    const Scale<D> scale(d, a.scale, c);
    const auto slope = hn::LoadU(d, line.slope + c);
    const auto offset = hn::LoadU(d, line.offset + c);
    for (std::size_t pixel = first; pixel < end; ++pixel) {
      const std::size_t i = pixel * a.shape.channels + c;
      const auto centred = hn::Sub(load_at<kType>(d, a.input, i), scale.mean);
      const auto gradient = masked_gradient<kType, kMask>(d, a, scale, centred, i);
      const auto rest = hn::Add(hn::Mul(centred, slope), offset);
      store_at<kType>(d, hn::Add(hn::Mul(gradient, scale.factor), rest), input_gradient, i);
    }
  }
};

}  // namespace phub::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PHUB_KERNELS_NORMALISE_INL_H
