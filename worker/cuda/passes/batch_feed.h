// What each step needs from the host: images, labels, and what dropout draws from. Two of each in
// turn: the host fills one and sends it while the device reads the other.
//
// Owned by DevicePasses; its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "common/base/status.h"
#include "worker/cuda/lowered/runner.h"
#include "worker/cuda/runtime/runtime.h"
#include "worker/nn/executor.h"
#include "worker/nn/graph/graph.h"
#include "worker/nn/loss.h"

namespace phub::nn::cuda {

class BatchFeed : public ByteInput {
 public:
  // Errors: kInvalidArgument for images of more than 4 channels.
  static Result<std::unique_ptr<BatchFeed>> create(Runtime& runtime, const LoweredRunner& runner,
                                                   const Graph& graph, std::uint32_t batch);

  // Copies both and queues their way to the device.
  Status load(std::span<const float> images, const Labels& labels);
  // The device moves, normalises and converts them.
  Status load_bytes(const ByteImages& images, const Labels& labels) override;
  Result<std::span<std::uint8_t>> pixels_ahead() override;
  Status send_ahead(const ByteImages& images, const Labels& labels) override;
  Status load_ahead() override;
  // kCompute: the network's input becomes the last batch.
  Status prepare();
  void set_noise(std::uint64_t noise) { noise_ = noise; }
  // kCompute: dropout's keys become those of the noise.
  Status send_noise();
  // kCompute has read the labels for the last time, until the next load.
  Status labels_were_read();

  std::size_t labels() const { return slots_[current_].labels; }
  const std::int32_t* device_labels() const;
  // Null where no image is mixed.
  const std::int32_t* device_second_labels() const;
  const float* device_shares() const;

 private:
  static constexpr std::uint32_t kChannelsMax = 4;  // of kernels::cuda::PrepareImages

  struct Slot {
    BlockPointer pinned, device;  // images, what mixed ones have, labels, how bytes are moved
    std::size_t labels = 0;
    bool is_mixed = false;
    bool is_bytes = false;
    bool is_sent = false;                                         // and not yet the batch
    float mean[kChannelsMax] = {}, deviation[kChannelsMax] = {};  // of bytes
    BlockPointer keys;                                            // pinned
    EventPointer sent, read, keys_sent;
  };
  // Where in a slot things are, in bytes. Images in fp32 take the most.
  struct SlotLayout {
    std::size_t shares = 0, second_labels = 0;  // only mixed images have these
    std::size_t labels = 0, tops = 0, lefts = 0, flips = 0, end = 0;
  };

  BatchFeed(Runtime& runtime, const LoweredRunner& runner, const Shape& shape, std::uint32_t batch);

  Status make(Slot& slot);
  Status write_labels(const Labels& labels);
  void write_moves(std::span<const ImageMove> moves);
  Status send(std::size_t from, std::size_t bytes);
  kernels::cuda::PrepareImages preparation();
  Slot& now() { return slots_[current_]; }
  Slot& next() { return slots_[1 - current_]; }

  Runtime& runtime_;
  const LoweredRunner& runner_;
  Shape shape_;
  std::uint32_t batch_;
  std::size_t pixels_;  // of a batch
  SlotLayout layout_;
  bool has_dropout_ = false;
  Slot slots_[2];
  std::size_t current_ = 0;
  bool is_prepared_ = true;
  std::uint64_t noise_ = 0, noises_ = 0;
  std::optional<std::uint64_t> sent_noise_;
};

}  // namespace phub::nn::cuda
