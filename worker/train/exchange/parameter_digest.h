// What says that a file beside a checkpoint is of the checkpoint's parameters.
#pragma once

#include <bit>
#include <cstdint>

#include "worker/nn/executor.h"

namespace phub::train {

// FNV-1a over the bits of all parameters; values(key) are a parameter's, in fp32.
template <typename Values>
std::uint64_t parameter_digest(const nn::Executor& network, Values values) {
  std::uint64_t digest = 0xCBF29CE484222325U;
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    for (const float value : values(key)) {
      digest = (digest ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001B3U;
    }
  }
  return digest;
}

}  // namespace phub::train
