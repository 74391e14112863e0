#include "common/job/enums.h"

#include <string>

namespace phub {

Status unknown_enumerator(std::string_view field, int value) {
  return {Code::kInvalidArgument, std::string(field) + ": " + std::to_string(value) +
                                      " is not known here; is the server older than the worker?"};
}

Result<DataType> data_type_from(control::WireType type) {
  if (!control::WireType_IsValid(type)) return unknown_enumerator("wire_type", type);
  return static_cast<DataType>(type);
}

Result<RuleKind> rule_from(control::UpdateRule rule) {
  if (!control::UpdateRule_IsValid(rule)) return unknown_enumerator("rule", rule);
  return static_cast<RuleKind>(rule);
}

Result<LossScaling> loss_scaling_from(control::LossScaling kind) {
  if (!control::LossScaling_IsValid(kind)) return unknown_enumerator("loss_scaling", kind);
  return static_cast<LossScaling>(kind);
}

Result<RackShape> rack_shape_from(control::RackShape shape) {
  if (!control::RackShape_IsValid(shape)) return unknown_enumerator("rack_shape", shape);
  return static_cast<RackShape>(shape);
}

Result<Encoding> encoding_from(control::Encoding encoding) {
  if (!control::Encoding_IsValid(encoding)) return unknown_enumerator("encoding", encoding);
  return static_cast<Encoding>(encoding);
}

Result<Selector> selector_from(control::Selector selector) {
  if (!control::Selector_IsValid(selector)) {
    return unknown_enumerator("rack_compress.selector", selector);
  }
  return static_cast<Selector>(selector);
}

Result<LatePushes> late_pushes_from(control::LatePushes late) {
  if (!control::LatePushes_IsValid(late)) return unknown_enumerator("rounds.late", late);
  return static_cast<LatePushes>(late);
}

Result<PushWeight> push_weight_from(control::PushWeight weight) {
  if (!control::PushWeight_IsValid(weight)) return unknown_enumerator("rounds.weight", weight);
  return static_cast<PushWeight>(weight);
}

Result<WatchValues> watch_values_from(control::WatchValues watch) {
  if (!control::WatchValues_IsValid(watch)) return unknown_enumerator("watch_values", watch);
  return static_cast<WatchValues>(watch);
}

}  // namespace phub
