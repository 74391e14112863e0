// Whether gradients go from a GPU's memory to the network without a copy on the host, and how that
// is agreed between the executor, which has the memory, and the exchange, whose adapters read it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "common/base/status.h"
#include "worker/nn/executor.h"
#include "worker/train/exchange/gradient_exchange.h"

namespace phub::train {

enum class GpuDirect : std::uint8_t {
  kOff,       // through the host's memory
  kAuto,      // directly where that can be had
  kRequired,  // directly or not at all
};

// "off", "auto", "required"; nothing for any other word.
std::optional<GpuDirect> parse_gpu_direct(std::string_view word);

struct DirectOptions {
  GpuDirect wanted = GpuDirect::kOff;
  bool sums = false;  // somebody adds gradients up on the host before they are pushed
  // Told once which way gradients take and why, unless it is kOff or nothing travels.
  std::function<void(std::string_view)> note = [](std::string_view) {};
};

// bind (initialise.h) with gradients in exported memory of the executor where that is wanted and
// can be had; else as bind does it. Error: kFailedPrecondition when it is required, with what
// refused it and the cure.
Status bind_direct(nn::Executor& network, GradientExchange& exchange, const DirectOptions& options);

}  // namespace phub::train
