// The pieces that every oneDNN op is made of: the engine and its scratchpad, tensors, ready-made
// calls, and the way between the exchange's plain arrays and oneDNN's layouts.
//
// Constructors may throw dnnl::error, which make_op turns into a Status; nothing else does. Used by
// the backend's thread only.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <utility>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "common/memory/memory.h"
#include "worker/nn/onednn/choice/kernel_book.h"
#include "worker/nn/onednn/team.h"
#include "worker/nn/ops.h"

namespace phub::nn::onednn {

// One scratch memory for all ops, since they run one after the other: as large as the largest.
class Scratchpad {
 public:
  // A memory of this description whose address follows the scratchpad as it grows.
  dnnl::memory view(const dnnl::memory::desc& desc, const dnnl::engine& engine);

 private:
  dnnl::memory storage_;
  std::vector<dnnl::memory> views_;
};

// What ops need for a moment only.
struct OpScratch {
  Scratchpad scratchpad;
  std::array<Scratchpad, 2> copies;  // of images, in other layouts
};

// Where images are kept: one after the other in huge pages, where the machine has them. Passes over
// images are bound by memory, and each 4 KiB page would be looked up on its own. Freed as a whole.
class ImageMemory {
 public:
  // Zero at first. Throws dnnl::error (out of memory).
  dnnl::memory take(const dnnl::memory::desc& desc, const dnnl::engine& engine);
  std::uint64_t taken_bytes() const { return taken_; }

 private:
  std::vector<std::unique_ptr<Mapping>> blocks_;
  std::size_t used_ = 0;  // bytes of the last block
  std::uint64_t taken_ = 0;
};

dnnl::memory::data_type dnnl_type(DataType type);

struct OnednnContext {
  explicit OnednnContext(const BackendOptions& options)
      : type(options.compute_type),
        team(options.threads),
        kernels(options.kernels, options.threads) {}

  DataType type;  // of activations, their gradients, and copies of weights
  Team team;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  OpScratch room;
  ImageMemory images;
  KernelBook kernels;
};

// [batch][channels][height][width] stored as NHWC.
dnnl::memory::desc image_desc(std::uint32_t batch, const Shape& shape, DataType type);

inline std::byte* bytes(const dnnl::memory& memory) {
  return static_cast<std::byte*>(memory.get_data_handle());
}

class OnednnTensor : public Tensor {
 public:
  OnednnTensor(const TensorOptions& options, OnednnContext& context);
  // A view: the same value, a gradient of its own.
  OnednnTensor(const OnednnTensor& tensor, OnednnContext& context);

  std::size_t elements() const override { return options_.batch * options_.shape.elements(); }
  bool has_gradient() const override { return options_.gradient; }
  std::size_t value_bytes() const override { return value_.get_desc().get_size(); }
  void write_value(std::span<const float> host) override;
  void read_value(std::span<float> host) const override;
  void write_gradient(std::span<const float> host) override;
  void read_gradient(std::span<float> host) const override;

  const Shape& shape() const { return options_.shape; }
  std::uint32_t batch() const { return options_.batch; }
  std::size_t pixels() const { return elements() / options_.shape.channels; }
  DataType type() const { return type_; }  // of the gradient, and of the value unless it is wider
  const dnnl::memory& value() const { return value_; }
  const dnnl::memory& gradient() const { return gradient_; }
  dnnl::memory::desc desc() const { return image_desc(options_.batch, options_.shape, type_); }

  // Keeps the value in fp32 if it is the network's output, for the loss. REQUIRES: only the op that
  // writes it, and no other, has been made.
  void widen_output(OnednnContext& context);

 private:
  TensorOptions options_;
  DataType type_;
  DataType value_type_;
  dnnl::memory value_;
  dnnl::memory gradient_;
};

// A primitive with its arguments, made once. Running it allocates nothing of ours.
class PrimitiveCall {
 public:
  using Arguments = std::vector<std::pair<int, dnnl::memory>>;

  PrimitiveCall() = default;
  PrimitiveCall(const dnnl::primitive& primitive, const Arguments& arguments);

  bool empty() const { return arguments_.empty(); }
  Status run(const OnednnContext& context) const;

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;  // keeps what arguments_ points to alive
  std::vector<dnnl_exec_arg_t> arguments_;
};

// Copies elements to where, and in the type that, `to` has them.
PrimitiveCall reorder(const dnnl::memory& from, const dnnl::memory& to);

// Alignment in bytes from which oneDNN's kernels may work in place on memory of others.
inline constexpr std::size_t kInPlaceAlignment = 64;

// A parameter on its way in, or a gradient on its way out: used where it is if its plain layout is
// the wanted one and it is aligned, else copied by copy().
class BoundArray {
 public:
  enum class Way { kIn, kOut };

  BoundArray(Way way, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted,
             const OnednnContext& context);

  const dnnl::memory& memory() const { return memory_; }
  // What is on its way in is only read.
  void bind(const float* array);
  // Reads another array's copy of the same parameter, in the same layout, instead of its own. That
  // one outlives it, and is bound and copied before it.
  void follow(const BoundArray& leader);
  Status copy(const OnednnContext& context) const {
    return copies_ ? reorder_.run(context) : Status();
  }

 private:
  const BoundArray* leader_ = nullptr;
  bool copies_ = true;
  bool same_layout_;
  dnnl::memory plain_;
  dnnl::memory memory_;
  PrimitiveCall reorder_;
};

}  // namespace phub::nn::onednn
