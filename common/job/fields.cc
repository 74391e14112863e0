#include "common/job/fields.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>
#include <google/protobuf/text_format.h>

#include <optional>

#include "common/job/rack_list.h"
#include "common/text/message_json.h"
#include "common/text/nearest.h"
#include "common/text/word.h"

namespace phub {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr char kRackList[] = "racks";
constexpr char kKeys[] = "keys";
constexpr char kNothing[] = "nothing";
constexpr std::size_t kNameShown = 64;

bool is_group(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated();
}

std::string words_of(const google::protobuf::EnumDescriptor& type) {
  std::string words;
  for (int i = 0; i < type.value_count(); ++i) {
    const bool is_last = i + 1 == type.value_count();
    words += (i == 0 ? "" : is_last ? " or " : ", ") + enum_word(*type.value(i));
  }
  return words;
}

std::string kind_of(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return words_of(*field.enum_type());
    case FieldDescriptor::CPPTYPE_STRING:
      return "a name";
    case FieldDescriptor::CPPTYPE_UINT32:
      return "a whole number, at most 4294967295";
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number, at most 18446744073709551615";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "NAME:WORKERS,NAME:WORKERS";  // racks
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "a number that 32 bits can hold";
    default:
      return "a number that 64 bits can hold";
  }
}

void list(const Descriptor& type, const std::string& prefix, std::vector<FieldInfo>& fields) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string name = prefix + field.name();
    if (is_group(field)) {
      list(*field.message_type(), name + ".", fields);
    } else if (name != kKeys) {
      fields.push_back({name, kind_of(field)});
    }
  }
}

Status unknown(std::string_view name) {
  std::vector<std::string> names;
  std::string group;  // its fields, if it is one
  for (const FieldInfo& field : job_fields()) {
    names.push_back(field.name);
    if (!field.name.starts_with(std::string(name) + ".")) continue;
    group += (group.empty() ? "" : ", ") + field.name;
  }
  if (!group.empty()) {
    return {Code::kInvalidArgument, fmt::format("{}: is a group of fields; set {}", name, group)};
  }
  const std::optional<std::string> meant = nearest_word(name, names);
  return {Code::kInvalidArgument,
          fmt::format("{}: is no field of a job{}", name.substr(0, kNameShown),
                      meant ? fmt::format("; did you mean {}?", *meant)
                            : "; `phubctl job fields` lists them")};
}

// The field of that name, and the message that has it.
struct Place {
  const FieldDescriptor* field = nullptr;
  Message* owner = nullptr;
};

Result<Place> find(std::string_view name, control::JobSpec& job) {
  Place place{.owner = &job};
  std::string_view rest = name;
  for (;;) {
    const std::size_t dot = rest.find('.');
    const bool is_last = dot == std::string_view::npos;
    place.field = place.owner->GetDescriptor()->FindFieldByName(std::string(rest.substr(0, dot)));
    if (place.field == nullptr || is_group(*place.field) == is_last) return unknown(name);
    if (is_last) break;
    place.owner = place.owner->GetReflection()->MutableMessage(place.owner, place.field);
    rest.remove_prefix(dot + 1);
  }
  if (name == kKeys) return unknown(name);
  return place;
}

Status set_racks(std::string_view text, control::JobSpec& job) {
  const Result<std::vector<RackSpec>> racks = parse_racks(text);
  if (!racks) return racks.error().with_context(kRackList);
  job.clear_racks();
  std::uint32_t workers = 0;
  for (const RackSpec& rack : *racks) {
    control::JobRack& added = *job.add_racks();
    added.set_name(rack.name);
    added.set_workers(rack.workers);
    workers += rack.workers;
  }
  job.set_workers(workers);
  return {};
}

const google::protobuf::EnumValueDescriptor* enumerator(const FieldDescriptor& field,
                                                        std::string_view word) {
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    const auto* const value = field.enum_type()->value(i);
    if (enum_word(*value) == word) return value;
  }
  return nullptr;
}

template <typename Number, typename Set>
bool set_number(std::string_view text, const Set& set) {
  const std::optional<Number> number = parse_number<Number>(text);
  if (number) set(*number);
  return number.has_value();
}

// Whether the text is one of the field's values.
bool set_value(const Place& place, std::string_view text) {
  const auto& reflection = *place.owner->GetReflection();
  const FieldDescriptor* const field = place.field;
  Message* const owner = place.owner;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(owner, field, std::string(text));
      return true;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(owner, field, text == "true");
      return text == "true" || text == "false";
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* const value = enumerator(*field, text);
      if (value != nullptr) reflection.SetEnum(owner, field, value);
      return value != nullptr;
    }
    case FieldDescriptor::CPPTYPE_UINT32:
      return set_number<std::uint32_t>(
          text, [&](std::uint32_t number) { reflection.SetUInt32(owner, field, number); });
    case FieldDescriptor::CPPTYPE_UINT64:
      return set_number<std::uint64_t>(
          text, [&](std::uint64_t number) { reflection.SetUInt64(owner, field, number); });
    case FieldDescriptor::CPPTYPE_FLOAT:
      return set_number<float>(text,
                               [&](float number) { reflection.SetFloat(owner, field, number); });
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return set_number<double>(text,
                                [&](double number) { reflection.SetDouble(owner, field, number); });
    default:
      return false;  // a job has no others
  }
}

}  // namespace

Status set_field(std::string_view name, std::string_view text, control::JobSpec& job) {
  if (name == kRackList) return set_racks(text, job);
  control::JobSpec changed = job;
  PHUB_ASSIGN_OR_RETURN(const Place place, find(name, changed));
  if (!set_value(place, text)) {
    return {Code::kInvalidArgument,
            fmt::format("{}: {} is not {}", name, quoted(text), kind_of(*place.field))};
  }
  job.Swap(&changed);
  return {};
}

std::string value_text(const Message& owner, const FieldDescriptor& field) {
  const auto& reflection = *owner.GetReflection();
  if (field.is_repeated()) {
    std::vector<RackSpec> racks;
    for (const auto& rack : reflection.GetRepeatedFieldRef<control::JobRack>(owner, &field)) {
      racks.push_back({rack.name(), rack.workers()});
    }
    return racks.empty() ? kNothing : text_of(racks);
  }
  if (field.has_presence() && !reflection.HasField(owner, &field)) return kNothing;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    return enum_word(*reflection.GetEnum(owner, &field));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return reflection.GetString(owner, &field);
  }
  std::string text;
  TextFormat::PrintFieldValueToString(owner, &field, -1, &text);
  return text;
}

std::string field_text(std::string_view name, const control::JobSpec& job) {
  control::JobSpec copy = job;
  const Result<Place> place = find(name, copy);
  return place ? value_text(*place->owner, *place->field) : kNothing;
}

std::vector<FieldInfo> job_fields() {
  std::vector<FieldInfo> fields;
  list(*control::JobSpec::descriptor(), "", fields);
  return fields;
}

}  // namespace phub
