#include "common/protocol/job_enums.h"

#include <string>

namespace phub {

control::WireType message_of(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return control::WIRE_TYPE_FP32;
    case DataType::kFloat16:
      return control::WIRE_TYPE_FP16;
    case DataType::kBfloat16:
      return control::WIRE_TYPE_BF16;
  }
  return control::WIRE_TYPE_FP32;
}

control::UpdateRule message_of(RuleKind rule) {
  switch (rule) {
    case RuleKind::kSum:
      return control::RULE_SUM;
    case RuleKind::kMean:
      return control::RULE_MEAN;
    case RuleKind::kSgd:
      return control::RULE_SGD;
    case RuleKind::kMomentum:
      return control::RULE_MOMENTUM;
    case RuleKind::kNesterov:
      return control::RULE_NESTEROV;
    case RuleKind::kLars:
      return control::RULE_LARS;
  }
  return control::RULE_SUM;
}

control::LossScaling message_of(LossScaling kind) {
  switch (kind) {
    case LossScaling::kNone:
      return control::LOSS_SCALING_NONE;
    case LossScaling::kStatic:
      return control::LOSS_SCALING_STATIC;
    case LossScaling::kVoted:
      return control::LOSS_SCALING_VOTED;
  }
  return control::LOSS_SCALING_NONE;
}

Status unknown_enumerator(std::string_view field, int value) {
  return {Code::kInvalidArgument, std::string(field) + ": " + std::to_string(value) +
                                      " is not known here; is the server older than the worker?"};
}

Result<DataType> data_type_from(control::WireType type) {
  switch (type) {
    case control::WIRE_TYPE_FP32:
      return DataType::kFloat32;
    case control::WIRE_TYPE_FP16:
      return DataType::kFloat16;
    case control::WIRE_TYPE_BF16:
      return DataType::kBfloat16;
    default:
      return unknown_enumerator("wire_type", type);
  }
}

Result<RuleKind> rule_from(control::UpdateRule rule) {
  switch (rule) {
    case control::RULE_SUM:
      return RuleKind::kSum;
    case control::RULE_MEAN:
      return RuleKind::kMean;
    case control::RULE_SGD:
      return RuleKind::kSgd;
    case control::RULE_MOMENTUM:
      return RuleKind::kMomentum;
    case control::RULE_NESTEROV:
      return RuleKind::kNesterov;
    case control::RULE_LARS:
      return RuleKind::kLars;
    default:
      return unknown_enumerator("rule", rule);
  }
}

Result<LossScaling> loss_scaling_from(control::LossScaling kind) {
  switch (kind) {
    case control::LOSS_SCALING_NONE:
      return LossScaling::kNone;
    case control::LOSS_SCALING_STATIC:
      return LossScaling::kStatic;
    case control::LOSS_SCALING_VOTED:
      return LossScaling::kVoted;
    default:
      return unknown_enumerator("loss_scaling", kind);
  }
}

}  // namespace phub
