// A network made runnable for one batch size, as training sees it: on CPUs a Network, on a GPU what
// the CUDA plug-in makes.
//
// A step is load, forward, start_loss, backward. On a device these queue work and return; the hooks
// are called from within them, in order, when what they are told is so. Parameters and gradients
// live outside, in plain fp32 arrays (the exchange owns them). Used by the thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/rule.h"
#include "common/base/status.h"
#include "common/memory/exported_memory.h"
#include "worker/nn/graph/graph.h"
#include "worker/nn/loss.h"
#include "worker/nn/ops.h"
#include "worker/nn/step_time.h"

namespace phub::nn {

// A layer's keys: positions in Executor::parameters().
struct KeyRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  bool operator==(const KeyRange&) const = default;
};

// Whether all elements of gradients are finite as they were written.
enum class Finite : std::uint8_t { kUnknown, kYes, kNo };

// Of layers with parameters only, but for the loss. An error ends the pass and is returned from it.
class Hooks {
 public:
  virtual ~Hooks() = default;
  // In forward order: before the layer's parameters are read.
  virtual Status weights_needed(const KeyRange& keys) = 0;
  // What start_loss worked out: during backward, before the first grad_ready.
  virtual Status loss_known(const Loss& /*loss*/) { return {}; }
  // In backward order: the layer's gradients are in their arrays; its parameters are not read again
  // before the next weights_needed.
  virtual Status grad_ready(const KeyRange& keys) = 0;
  // Instead, from executors that looked at the gradients while writing them.
  virtual Status grad_checked(const KeyRange& keys, Finite /*finite*/) { return grad_ready(keys); }
};

// How an executor that keeps its parameters updates them (common/base/rule.h).
struct OwnRule {
  RuleKind kind = RuleKind::kMomentum;
  float learning_rate = 0.0F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;    // of what decays (ParameterSpec::decays)
  float gradient_scale = 1.0F;  // gradients are multiplied by it
  LarsOptions lars = {};
  AdaptiveOptions adaptive = {};
};

enum class LayerPass { kForward, kBackward };

// Told when a layer's pass begins and ends, for who measures it: its own work lies between, hooks
// and other layers do not. A backward may come in several parts.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual void begin(LayerPass pass, std::size_t layer) = 0;
  virtual void end(LayerPass pass, std::size_t layer) = 0;
};

// What the layers' outputs take for a batch, in bytes: those that are ever written.
struct FeatureMaps {
  std::uint64_t values = 0;  // the input's too
  std::uint64_t gradients = 0;
  std::uint64_t mapped = 0;  // what the backend keeps of images outside of malloc's memory
};

// How an image is moved: output(row, column) = input(row - down, column - right), of the image that
// is mirrored left to right first where `flip`; what comes in from outside is black.
struct ImageMove {
  std::int32_t down = 0;
  std::int32_t right = 0;
  bool flip = false;
};

// A batch as data sets have it: the network's input is (byte / 255 - mean) / deviation, moved.
struct ByteImages {
  std::span<const std::uint8_t> pixels;    // [image][row][column][channel] of the network's shape
  std::span<const ImageMove> moves;        // [image]
  std::span<const float> mean, deviation;  // [channel]
};

// Images as data sets have them, for executors that move, normalise and convert them themselves.
class ByteInput {
 public:
  ByteInput() = default;
  ByteInput(const ByteInput&) = delete;
  ByteInput& operator=(const ByteInput&) = delete;
  virtual ~ByteInput() = default;

  // As Executor::load.
  virtual Status load_bytes(const ByteImages& images, const Labels& labels) = 0;
  // A batch ahead, in three calls, where one is taken: pixels_ahead is where its pixels go,
  // Executor::input_elements() bytes which any thread may fill (empty: none is taken). send_ahead
  // sends them, also from within backward's hooks; `images.pixels` is that memory. load_ahead,
  // between steps, makes it the batch of the forwards that follow. Another load in between forgets
  // it.
  virtual Result<std::span<std::uint8_t>> pixels_ahead() { return std::span<std::uint8_t>(); }
  virtual Status send_ahead(const ByteImages& /*images*/, const Labels& /*labels*/) {
    return {Code::kFailedPrecondition, "this backend takes no batch ahead"};
  }
  virtual Status load_ahead() {
    return {Code::kFailedPrecondition, "this backend takes no batch ahead"};
  }
};

// Of each parameter, in arrays of one type.
struct TypedBindings {
  DataType type = DataType::kFloat32;
  std::span<const TypedBinding> keys = {};
  // Not null: gradients are in this memory of the device (each binding's is a part of it), so that
  // none is copied to the host. Then a hook says of gradients that they are written there.
  ExportedMemoryPointer exported = nullptr;
};

std::vector<TypedBinding> as_typed(std::span<const Binding> bindings);
// Whether the arrays have as many elements as the parameters. Error: kInvalidArgument names one.
Status check_bindings(const std::vector<ParameterSpec>& parameters, const TypedBindings& bindings);

class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  // In forward order: these are the keys of the exchange.
  virtual const std::vector<ParameterSpec>& parameters() const = 0;
  // What is not exchanged, as the last forward left it. What is written to the values before the
  // next forward counts; after it they are stale.
  virtual Result<std::vector<StateBuffer>> read_buffers() = 0;

  // One binding for each parameter. Errors: kInvalidArgument names the parameter.
  virtual Status bind(std::span<const Binding> bindings);
  // The same with arrays of the type that travels, where the executor reads and writes that itself.
  virtual bool binds(DataType /*type*/) const { return false; }
  virtual Status bind_typed(const TypedBindings& /*bindings*/) {
    return {Code::kInvalidArgument, "this backend's parameters and gradients are fp32"};
  }
  // Memory of the executor's device that network adapters may read, for TypedBindings.
  virtual Result<ExportedMemoryPointer> export_gradients(std::size_t /*bytes*/) {
    return Status(Code::kFailedPrecondition,
                  "this backend's gradients are not in a GPU's memory that could be exported");
  }
  // Instead: parameters, gradients and the optimizer's state are the executor's own. Then hooks are
  // told the loss only, and update(), after backward, makes the step; gradients that are not finite
  // make none. For training alone, where the parameters never leave the device.
  virtual Status keep_parameters(std::span<const std::vector<float>> /*initial*/) {
    return {Code::kInvalidArgument, "this backend updates parameters through an exchange only"};
  }
  virtual Status update(const OwnRule& /*rule*/) {
    return {Code::kFailedPrecondition, "update: the parameters are not the executor's own"};
  }

  // Of the passes that follow; null: nobody looks, which costs nothing. False: this executor's
  // layers cannot be told apart.
  virtual bool observe(LayerObserver* /*observer*/) { return false; }
  virtual FeatureMaps feature_maps() const { return {}; }

  // The steps of a pass in training, each by itself on a device that does nothing else, as medians
  // of `passes`. REQUIRES: a whole step of training behind it. Error: kInvalidArgument: this
  // executor has no such steps.
  virtual Result<DeviceProfile> time_steps(std::uint32_t /*passes*/) {
    return Status(Code::kInvalidArgument, "this backend runs no list of steps");
  }

  virtual std::uint32_t batch() const = 0;
  virtual std::size_t input_elements() const = 0;   // of the whole batch
  virtual std::size_t output_elements() const = 0;  // likewise

  // Backend::set_noise, for the forwards in training that follow.
  virtual void set_noise(std::uint64_t noise) = 0;
  // The batch of the forwards that follow: input_elements() in [image][row][column][channel], and
  // the labels of its first images (of all, for start_loss), two of each where images are mixed.
  // Both may go when it returns.
  virtual Status load(std::span<const float> images, const Labels& labels) = 0;
  // The same for images as bytes; null: the executor takes none.
  virtual ByteInput* byte_input() { return nullptr; }
  // REQUIRES: bound and loaded.
  virtual Status forward(Mode mode, Hooks& hooks) = 0;
  // Of the last forward, in any mode: its output, [image][class] of the whole batch; waits for it.
  // REQUIRES: output_elements().
  virtual Status read_output(std::span<float> host) = 0;
  // Makes the gradient by the output that backward starts from. Its value comes with
  // Hooks::loss_known. REQUIRES: a forward in training mode, with a label for each image.
  virtual Status start_loss(const LossOptions& options) = 0;
  // The output's gradient -> every parameter's gradient, all told on return. REQUIRES: start_loss.
  virtual Status backward(Hooks& hooks) = 0;
};

}  // namespace phub::nn
