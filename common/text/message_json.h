// Messages as JSON for programs: field names of control.proto, numbers as numbers, enumerators as
// lower-case words without their prefix ("running", "fp32"); a message or an `optional` field that
// is absent is left out. One object on one line.
//
// Pure functions; any thread.
#pragma once

#include <google/protobuf/generated_enum_reflection.h>
#include <google/protobuf/message.h>

#include <string>

namespace phub {

std::string message_json(const google::protobuf::Message& message);

// JOB_STATE_RUNNING -> "running". REQUIRES: it is one of the enumerators.
std::string enum_word(const google::protobuf::EnumValueDescriptor& value);
template <typename Enum>
std::string enum_word(Enum value) {
  return enum_word(*google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value));
}

}  // namespace phub
