// The kernels around a training step: parameters in, gradients out, loss, optimizer, images.
//
// As network_arguments.h: each has a scalar specification (training_reference.h) and a device
// kernel (training_kernels.h) over the same arguments.
#pragma once

#include <cstdint>

#include "common/base/dtype.h"
#include "kernels/adaptive.h"

namespace phub::kernels::cuda {

// Work on many tensors in one launch: a block does one chunk. Arrays live where the kernel runs.
struct TensorChunk {
  std::uint32_t tensor = 0;
  std::uint32_t chunk = 0;  // of kChunkElements elements of this tensor
};
inline constexpr std::int64_t kChunkElements = 4096;

constexpr std::int64_t chunks_of(std::int64_t elements) {
  return (elements + kChunkElements - 1) / kChunkElements;
}

// A parameter as the exchange has it, [k][c][pixels], and as cuDNN reads it, [padded_k][pixels]
// [padded_c] with zeros where there is none.
struct ParameterTensor {
  void* plain;
  void* padded;
  std::int64_t k, c, pixels, padded_k, padded_c;
  DataType plain_type, padded_type;
};

// Chunks count padded elements: padded = plain, converted (nearest even).
struct LoadParameters {
  const ParameterTensor* tensors;
  const TensorChunk* chunks;
  std::int64_t chunk_count;
};

// Chunks count plain elements: plain = padded * scale, converted. Where the result is not finite,
// *not_finite becomes 1; else it is left alone.
struct PublishGradients {
  const ParameterTensor* tensors;
  const TensorChunk* chunks;
  std::int64_t chunk_count;
  float scale;
  int* not_finite;
};

// Softmax and cross-entropy of logits [images][padded_classes], with labels smoothed after Szegedy
// et al., "Rethinking the Inception architecture", 2016: the target is 1 - smoothing +
// smoothing / classes for the label and smoothing / classes for others. A mixed image has two
// labels, which divide 1 - smoothing: label_shares[i] of it is the first one's.
// loss[i] is an image's, correct[i] whether its first largest logit is labels[i]'s. gradient (null:
// none) = (softmax - target) * scale, 0 in the padding.
struct SoftmaxLoss {
  const void* logits;
  const std::int32_t* labels;
  void* gradient;
  float* loss;
  std::int32_t* correct;
  DataType type;
  std::int64_t images, classes, padded_classes;
  float smoothing, scale;
  const std::int32_t* second_labels = nullptr;  // null, and label_shares too: no image is mixed
  const float* label_shares = nullptr;
};

enum class LocalRule : std::uint8_t {
  kMomentum,  // v = mu * v + g + wd * w;  w -= lr * v
  kNesterov,  // v = mu * v + g + wd * w;  w -= lr * (g + wd * w + mu * v)
  kLars,      // v = mu * v + lr * trust * (g + wd * w);  w -= v (common/base/rule.h's lars)
  kAdam,      // these four as in common/base/rule.h, with kernels/adaptive.h's factors
  kAdamW,
  kAdagrad,
  kLamb,
};
constexpr bool is_adaptive(LocalRule rule) { return rule >= LocalRule::kAdam; }

struct OptimizedTensor {
  float* weights;
  float* velocity;       // adam, adamw, lamb: the gradients' means; adagrad: their squares' sums
  const void* gradient;  // plain, of gradient_type
  std::int64_t elements;
  DataType gradient_type;
  bool decays;               // biases and batch normalisation do not: no weight decay, trust 1
  float* squares = nullptr;  // of gradients, their means: adam, adamw, lamb
};

// One step of the local mode, as common/base/rule.h has it. Nothing changes if *skip is not 0.
struct OptimizerStep {
  const OptimizedTensor* tensors;
  const TensorChunk* chunks;
  std::int64_t chunk_count, tensor_count;
  LocalRule rule;
  float learning_rate, momentum, weight_decay, gradient_scale;
  float lars_coefficient, lars_epsilon;
  double* chunk_squares;  // [2][chunk_count]: of weights, of gradients (kLamb: directions)
  float* trust;           // [tensor_count]; these two of kLars and kLamb only
  const int* skip;
  // Of adaptive rules. Where the kernel runs: how many updates are behind this one, which is
  // counted unless it is skipped, and room for its factors.
  AdaptiveOptions adaptive = {};
  std::int64_t* updates = nullptr;
  AdaptiveStep* factors = nullptr;
};

// Images for a network: target[image][row][column] = (source / 255 or as is, - mean) / deviation,
// of the window of target's size that starts at (top, left) of the source, mirrored where flip;
// what of it lies outside the source is 0 there. Channels behind those of the source are 0.
struct PrepareImages {
  const void* source;        // [images][source_height][source_width][channels]
  const std::int32_t* top;   // [images], or null: 0
  const std::int32_t* left;  // [images], or null: 0
  const std::uint8_t* flip;  // [images], or null: none
  void* target;              // [images][height][width][padded_channels] of `type`
  float mean[4], deviation[4];
  bool bytes;  // source is uint8 (and divided by 255), else fp32
  DataType type;
  std::int64_t images, source_height, source_width, channels;
  std::int64_t height, width, padded_channels;
};

}  // namespace phub::kernels::cuda
