// The enumerations of a job's spec, ours <-> proto/job.proto's: both ends of the control plane.
//
// Pure functions; any thread.
#pragma once

#include <string_view>

#include "common/base/dtype.h"
#include "common/base/loss_scale.h"
#include "common/base/rule.h"
#include "common/base/status.h"
#include "proto/job.pb.h"

namespace phub {

control::WireType message_of(DataType type);
control::UpdateRule message_of(RuleKind rule);
control::LossScaling message_of(LossScaling kind);

// kInvalidArgument, which names `field`, for an enumerator that is not known here: a peer that is
// newer may send one.
Status unknown_enumerator(std::string_view field, int value);
Result<DataType> data_type_from(control::WireType type);
Result<RuleKind> rule_from(control::UpdateRule rule);
Result<LossScaling> loss_scaling_from(control::LossScaling kind);

}  // namespace phub
