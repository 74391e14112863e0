#include "kernels/activations.h"

#include "common/base/check.h"

// This file is compiled once for every instruction set by including itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activations.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/normalise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phub::kernels::HWY_NAMESPACE {

constexpr auto kF32 = DataType::kFloat32;
constexpr auto kBf16 = DataType::kBfloat16;

void channel_sums_any(const ChannelSums& a) {
  if (a.shape.type == kF32) return run_tiles(ChannelSumsPass<kF32>{a});
  run_tiles(ChannelSumsPass<kBf16>{a});
}

template <DataType kType>
void normalise_type(const Normalise& a) {
  if (a.residual != nullptr) {
    if (a.relu) return run_tiles(NormalisePass<kType, true, true>{a});
    return run_tiles(NormalisePass<kType, false, true>{a});
  }
  if (a.relu) return run_tiles(NormalisePass<kType, true, false>{a});
  run_tiles(NormalisePass<kType, false, false>{a});
}

void normalise_any(const Normalise& a) {
  a.shape.type == kF32 ? normalise_type<kF32>(a) : normalise_type<kBf16>(a);
}

template <DataType kType>
void gradient_sums_type(const NormaliseGradient& a, double* sums, double* products,
                        std::byte* masked) {
  if (a.mask != nullptr) {
    return run_tiles(GradientSumsPass<kType, Mask::kStored>{a, sums, products, masked});
  }
  if (a.relu) {
    return run_tiles(GradientSumsPass<kType, Mask::kRecomputed>{a, sums, products, masked});
  }
  run_tiles(GradientSumsPass<kType, Mask::kNone>{a, sums, products, masked});
}

void gradient_sums_any(const NormaliseGradient& a, double* sums, double* products,
                       std::byte* masked) {
  if (a.shape.type == kF32) return gradient_sums_type<kF32>(a, sums, products, masked);
  gradient_sums_type<kBf16>(a, sums, products, masked);
}

template <DataType kType>
void backward_type(const NormaliseGradient& a, const GradientLine& line, std::byte* to) {
  if (a.mask != nullptr) return run_tiles(NormaliseBackwardPass<kType, Mask::kStored>{a, line, to});
  if (a.relu) return run_tiles(NormaliseBackwardPass<kType, Mask::kRecomputed>{a, line, to});
  run_tiles(NormaliseBackwardPass<kType, Mask::kNone>{a, line, to});
}

void backward_any(const NormaliseGradient& a, const GradientLine& line, std::byte* to) {
  a.shape.type == kF32 ? backward_type<kF32>(a, line, to) : backward_type<kBf16>(a, line, to);
}

template <DataType kType, class D>
HWY_INLINE void add_at(D d, const AddActivations& a, std::size_t i) {
  const auto sum = hn::Add(load_at<kType>(d, a.first, i), load_at<kType>(d, a.second, i));
  store_at<kType>(d, a.relu ? relu_of(d, sum) : sum, a.output, i);
}

template <DataType kType>
void add_type(const AddActivations& a) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= a.elements; i += lanes) add_at<kType>(d, a, i);
  const hn::CappedTag<float, 1> d1;
  for (; i < a.elements; ++i) add_at<kType>(d1, a, i);
}

void add_activations_any(const AddActivations& a) {
  a.type == kF32 ? add_type<kF32>(a) : add_type<kBf16>(a);
}

template <DataType kType, class D>
HWY_INLINE void mask_at(D d, const MaskGradient& a, std::size_t i) {
  const auto gradient = load_at<kType>(d, a.gradient, i);
  const auto masked = gradient_behind_relu(d, gradient, load_at<kType>(d, a.output, i));
  store_at<kType>(d, masked, a.first, i);
  if (a.second != nullptr) store_at<kType>(d, masked, a.second, i);
}

template <DataType kType>
void mask_type(const MaskGradient& a) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= a.elements; i += lanes) mask_at<kType>(d, a, i);
  const hn::CappedTag<float, 1> d1;
  for (; i < a.elements; ++i) mask_at<kType>(d1, a, i);
}

void mask_gradient_any(const MaskGradient& a) {
  a.type == kF32 ? mask_type<kF32>(a) : mask_type<kBf16>(a);
}

}  // namespace phub::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phub::kernels {

HWY_EXPORT(channel_sums_any);
HWY_EXPORT(normalise_any);
HWY_EXPORT(gradient_sums_any);
HWY_EXPORT(backward_any);
HWY_EXPORT(add_activations_any);
HWY_EXPORT(mask_gradient_any);

void add_channel_sums(const ChannelSums& arguments) {
  PHUB_DCHECK(arguments.shape.type != DataType::kFloat16, "fp32 or bf16");
  HWY_DYNAMIC_DISPATCH(channel_sums_any)(arguments);
}

void normalise(const Normalise& arguments) {
  PHUB_DCHECK(arguments.shape.type != DataType::kFloat16, "fp32 or bf16");
  HWY_DYNAMIC_DISPATCH(normalise_any)(arguments);
}

void add_gradient_sums(const NormaliseGradient& arguments, double* sums, double* products,
                       std::byte* masked_gradient) {
  PHUB_DCHECK(arguments.shape.type != DataType::kFloat16, "fp32 or bf16");
  HWY_DYNAMIC_DISPATCH(gradient_sums_any)(arguments, sums, products, masked_gradient);
}

void normalise_backward(const NormaliseGradient& arguments, const GradientLine& line,
                        std::byte* input_gradient) {
  PHUB_DCHECK(arguments.shape.type != DataType::kFloat16, "fp32 or bf16");
  HWY_DYNAMIC_DISPATCH(backward_any)(arguments, line, input_gradient);
}

void add_activations(const AddActivations& arguments) {
  PHUB_DCHECK(arguments.type != DataType::kFloat16, "fp32 or bf16");
  HWY_DYNAMIC_DISPATCH(add_activations_any)(arguments);
}

void mask_gradient(const MaskGradient& arguments) {
  PHUB_DCHECK(arguments.type != DataType::kFloat16, "fp32 or bf16");
  HWY_DYNAMIC_DISPATCH(mask_gradient_any)(arguments);
}

}  // namespace phub::kernels
#endif  // HWY_ONCE
