// What the workers of a job must agree on, and which of them this one is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/loss_scale.h"
#include "common/base/rule.h"
#include "common/protocol/keys.h"

namespace phub::client {

struct JobDescription {
  std::string name = "default";
  std::uint32_t workers = 1;
  std::int32_t worker_index = -1;  // -1: the server chooses
  DataType wire_type = DataType::kFloat32;
  RuleKind rule = RuleKind::kSum;
  Hyper hyper = {.gradient_scale = 0.0F};  // gradient_scale 0: 1 / workers
  LarsOptions lars = {};
  LossScale loss_scale = {};
  bool deterministic = true;
  std::uint32_t chunk_bytes = 32 * 1024;
  std::vector<KeySpec> keys = {};  // in forward order
};

}  // namespace phub::client
