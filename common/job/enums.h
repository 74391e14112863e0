// The enumerations of a job's spec, ours <-> proto/job.proto's: both ends of the control plane.
//
// Pure functions; any thread.
#pragma once

#include <string_view>

#include "common/base/dtype.h"
#include "common/base/encoding.h"
#include "common/base/loss_scale.h"
#include "common/base/round_policy.h"
#include "common/base/rule.h"
#include "common/base/status.h"
#include "common/plan/rack_trees.h"
#include "common/protocol/watch_values.h"
#include "proto/job.pb.h"

namespace phub {

// They have the same numbers on both sides; job_enums_test compares their names.
static_assert(control::WireType_MAX == static_cast<int>(DataType::kBfloat16));
static_assert(control::UpdateRule_MAX == static_cast<int>(RuleKind::kElastic));
static_assert(control::LossScaling_MAX == static_cast<int>(LossScaling::kVoted));
static_assert(control::Encoding_MAX == static_cast<int>(Encoding::kInt4));
static_assert(control::Selector_MAX == static_cast<int>(Selector::kThresholds));
static_assert(control::LatePushes_MAX == static_cast<int>(LatePushes::kAdd));
static_assert(control::PushWeight_MAX == static_cast<int>(PushWeight::kSamples));
static_assert(control::RackShape_MAX == static_cast<int>(RackShape::kNested));
static_assert(control::WatchValues_MAX == static_cast<int>(WatchValues::kFail));
inline control::WireType message_of(DataType type) { return static_cast<control::WireType>(type); }
inline control::UpdateRule message_of(RuleKind rule) {
  return static_cast<control::UpdateRule>(rule);
}
inline control::LossScaling message_of(LossScaling kind) {
  return static_cast<control::LossScaling>(kind);
}
inline control::RackShape message_of(RackShape shape) {
  return static_cast<control::RackShape>(shape);
}
inline control::Encoding message_of(Encoding encoding) {
  return static_cast<control::Encoding>(encoding);
}
inline control::Selector message_of(Selector selector) {
  return static_cast<control::Selector>(selector);
}
inline control::LatePushes message_of(LatePushes late) {
  return static_cast<control::LatePushes>(late);
}
inline control::PushWeight message_of(PushWeight weight) {
  return static_cast<control::PushWeight>(weight);
}
inline control::WatchValues message_of(WatchValues watch) {
  return static_cast<control::WatchValues>(watch);
}

// kInvalidArgument, which names `field`, for an enumerator that is not known here: a peer that is
// newer may send one.
Status unknown_enumerator(std::string_view field, int value);
Result<DataType> data_type_from(control::WireType type);
Result<RuleKind> rule_from(control::UpdateRule rule);
Result<LossScaling> loss_scaling_from(control::LossScaling kind);
Result<RackShape> rack_shape_from(control::RackShape shape);
Result<Encoding> encoding_from(control::Encoding encoding);
Result<Selector> selector_from(control::Selector selector);
Result<LatePushes> late_pushes_from(control::LatePushes late);
Result<PushWeight> push_weight_from(control::PushWeight weight);
Result<WatchValues> watch_values_from(control::WatchValues watch);

}  // namespace phub
