// A network for one batch size as lists of steps over buffers: what the CUDA backend runs.
//
// Made by lower() (lowering.h) without CUDA, planned for a device by the backend, interpreted on
// the host by tests. A value; read from any thread.
//
// Channels are padded with zeros: the network's input to a multiple of 4 (in bf16 of 8), all else
// to a multiple of 8 (tensor cores want 16 bytes). Every step keeps the zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "worker/cuda/lowered/element_type.h"
#include "worker/cuda/lowered/op_graph.h"

namespace phub::nn::cuda {

using BufferId = std::uint32_t;
inline constexpr BufferId kNoBuffer = std::numeric_limits<BufferId>::max();

enum class BufferRole : std::uint8_t {
  kScratch,   // dead before its first and after its last step: shares memory with others
  kInput,     // written by who feeds the network
  kValue,     // a parameter, as the kernels want it: padded, K R S C, of the compute type or fp32
  kGradient,  // a parameter's gradient, likewise
  kState,     // running statistics: fp32, kept from step to step
};

struct Buffer {
  std::string name;
  Dimensions dimensions;  // N, C, H, W with padded C, stored as NHWC
  ElementType type = ElementType::kFloat32;
  BufferRole role = BufferRole::kScratch;

  std::size_t bytes() const;
};

// Kernels of our own (kernels/cuda/network_arguments.h has the formulas). The names in brackets are
// KernelStep::buffers, in this order.
enum class Kernel : std::uint8_t {
  kFinalizeStatistics,  // [sum, sum_of_squares, scale, bias, running_mean, running_variance, mean,
                        //  inverse_deviation, factor, offset, factor16, offset16]
  kInferenceFactors,    // [scale, bias, running_mean, running_variance, factor, offset]
  kKeepStatistics,      // [next_running_mean, next_running_variance, running_mean, ..._variance]
  kApplyBatchNormBackward,  // [dy, x, dy_factor, x_factor, constant, dx]
  kBiasGradient,            // [dy, parts, bias_gradient]
  kCopyChannels,            // [source, target]
  kSubsample,               // [source, target]
  kSubsampleBackward,       // [target's gradient, source's gradient]
  kDropout,                 // [source, target]; backward is the same on gradients
  kScaledPool,              // [x, factor, offset, index, taken, y]
  kScaledPoolSums,          // [dy, taken, index, scale, mean, inverse_deviation, parts, dscale,
                            //  dbias, dy_factor, x_factor, constant]
  kScaledPoolBackward,      // [dy, x, index, dy_factor, x_factor, constant, dx]
  kChannelStatistics,       // [x, parts, sum, sum_of_squares]; the last: numbers are in caches
};

// Fields that a kernel does not name in its comment are unused by it.
struct KernelStep {
  Kernel kernel = Kernel::kCopyChannels;
  std::vector<BufferId> buffers = {};
  float epsilon = 0.0F;       // kFinalizeStatistics, kInferenceFactors
  float momentum = 0.0F;      // kFinalizeStatistics
  std::int64_t count = 0;     // kFinalizeStatistics, kScaledPoolSums: elements of a channel of x
  std::int64_t channels = 0;  // not padded: kCopyChannels, kSubsample(Backward), kDropout
  std::int64_t from = 0;      // kCopyChannels: the first channel in the source
  std::int64_t to = 0;        // kCopyChannels, kSubsample: the first channel in the target
  std::int64_t clear_to = 0;  // kCopyChannels: channels behind those become 0, up to this one
  std::int64_t stride = 1;    // kSubsample(Backward)
  float ratio = 0.0F;         // kDropout
  Window2d window = {};       // kScaledPool(Backward), which do not read pad_after
};

struct GraphStep {
  OpGraph graph;
  std::vector<BufferId> buffers;  // of the graph's kDevice operands, in their order
};

struct Step {
  std::string name;       // "layer1.0.conv1 forward"
  std::size_t layer = 0;  // of the Graph: parameters are awaited before, gradients told after
  std::variant<GraphStep, KernelStep> work;

  const std::vector<BufferId>& buffers() const;
};

// How a parameter of the exchange ([K][C][R][S], plain) lies in its buffers: [K'][R][S][C'] with
// K' and C' padded by zeros. Vectors have C = R = S = 1.
struct ParameterLayout {
  std::string name;
  BufferId value = kNoBuffer;
  BufferId gradient = kNoBuffer;
  std::int64_t k = 0, c = 1, pixels = 1;  // pixels: R * S
  std::int64_t padded_k = 0, padded_c = 1;
};

struct StateLayout {
  std::string name;  // "bn1.running_mean"
  BufferId buffer = kNoBuffer;
  std::int64_t channels = 0;
  float initial = 0.0F;
};

struct Lowered {
  std::vector<std::string> layers;  // their names
  std::vector<Buffer> buffers;
  std::vector<ParameterLayout> parameters;  // by key: in the order of the graph's layers
  std::vector<StateLayout> states;
  std::vector<Step> forward;    // in training
  std::vector<Step> backward;   // after `forward` and the loss
  std::vector<Step> inference;  // instead of `forward`

  BufferId input = kNoBuffer;
  BufferId output = kNoBuffer;  // logits, in training
  BufferId inference_output = kNoBuffer;
  BufferId output_gradient = kNoBuffer;  // written by the loss
  BufferId input_gradient = kNoBuffer;   // only if asked for

  BufferId add(Buffer buffer);
  const Buffer& buffer(BufferId id) const { return buffers[id]; }
};

// The graphs of some passes, each different one once, in the order in which they come first.
std::vector<const GraphStep*> different_graphs(
    std::initializer_list<const std::vector<Step>*> passes);

}  // namespace phub::nn::cuda
