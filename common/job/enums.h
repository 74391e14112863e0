// The enumerations of a job's spec, ours <-> proto/job.proto's: both ends of the control plane.
//
// Pure functions; any thread.
#pragma once

#include <string>
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

template <typename Message, bool (*is_valid)(int)>
struct MessageEnum {
  using Type = Message;
  static bool knows(int value) { return is_valid(value); }
};

// The enumeration of the message that an enumeration of ours is sent as.
template <typename Ours>
struct InMessage;
template <>
struct InMessage<DataType> : MessageEnum<control::WireType, control::WireType_IsValid> {};
template <>
struct InMessage<RuleKind> : MessageEnum<control::UpdateRule, control::UpdateRule_IsValid> {};
template <>
struct InMessage<LossScaling> : MessageEnum<control::LossScaling, control::LossScaling_IsValid> {};
template <>
struct InMessage<RackShape> : MessageEnum<control::RackShape, control::RackShape_IsValid> {};
template <>
struct InMessage<Encoding> : MessageEnum<control::Encoding, control::Encoding_IsValid> {};
template <>
struct InMessage<Selector> : MessageEnum<control::Selector, control::Selector_IsValid> {};
template <>
struct InMessage<LatePushes> : MessageEnum<control::LatePushes, control::LatePushes_IsValid> {};
template <>
struct InMessage<PushWeight> : MessageEnum<control::PushWeight, control::PushWeight_IsValid> {};
template <>
struct InMessage<WatchValues> : MessageEnum<control::WatchValues, control::WatchValues_IsValid> {};

template <typename Ours>
typename InMessage<Ours>::Type message_of(Ours value) {
  return static_cast<typename InMessage<Ours>::Type>(value);
}

// kInvalidArgument, which names `field`, for an enumerator that is not known here: a peer that is
// newer may send one.
inline Status unknown_enumerator(std::string_view field, int value) {
  return {Code::kInvalidArgument, std::string(field) + ": " + std::to_string(value) +
                                      " is not known here; is the server older than the worker?"};
}

// Error: kInvalidArgument, as `unknown_enumerator` has it.
template <typename Ours>
Result<Ours> enum_from(std::string_view field, typename InMessage<Ours>::Type value) {
  if (!InMessage<Ours>::knows(value)) return unknown_enumerator(field, value);
  return static_cast<Ours>(value);
}

}  // namespace phub
