#include "common/text/message_json.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace phub {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::ordered_json;

ordered_json json_of(const Message& message);

// Length of what the names of all enumerators start with, up to an underscore.
std::size_t prefix_of(const EnumDescriptor& type) {
  std::string prefix = type.value(0)->name();
  for (int i = 1; i < type.value_count(); ++i) {
    const std::string& name = type.value(i)->name();
    const auto end = std::mismatch(prefix.begin(), prefix.end(), name.begin(), name.end()).first;
    prefix.erase(end, prefix.end());
  }
  const std::size_t underscore = prefix.rfind('_');
  return underscore == std::string::npos ? 0 : underscore + 1;
}

// The shortest number that is this float, not the double next to it.
double shortest(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

ordered_json entry_of(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return json_of(reflection.GetRepeatedMessage(message, &field, index));
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetRepeatedUInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetRepeatedDouble(message, &field, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return shortest(reflection.GetRepeatedFloat(message, &field, index));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetRepeatedString(message, &field, index);
    default:
      return nullptr;  // the messages repeat nothing else
  }
}

ordered_json value_of(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return shortest(reflection.GetFloat(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int number = reflection.GetEnumValue(message, &field);
      const EnumValueDescriptor* const value = field.enum_type()->FindValueByNumber(number);
      return value == nullptr ? ordered_json(number) : ordered_json(enum_word(*value));
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return json_of(reflection.GetMessage(message, &field));
  }
  return nullptr;
}

ordered_json json_of(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  ordered_json object = ordered_json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.has_presence() && !reflection.HasField(message, &field)) continue;
    if (!field.is_repeated()) {
      object[field.name()] = value_of(message, field);
      continue;
    }
    ordered_json& array = object[field.name()] = ordered_json::array();
    for (int entry = 0; entry < reflection.FieldSize(message, &field); ++entry) {
      array.push_back(entry_of(message, field, entry));
    }
  }
  return object;
}

}  // namespace

std::string enum_word(const EnumValueDescriptor& value) {
  std::string word = value.name().substr(prefix_of(*value.type()));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return word;
}

std::string message_json(const Message& message) {
  return json_of(message).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace phub
