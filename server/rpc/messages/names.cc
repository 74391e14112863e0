#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <string>

#include "common/base/visible.h"
#include "server/rpc/messages/messages.h"

namespace phub::server {
namespace {

using google::protobuf::FieldDescriptor;

// The longest is a snapshot's file: a job's name of 256 bytes, each written as three.
constexpr std::size_t kBytesMax = 1024;

}  // namespace

Status check_names(const google::protobuf::Message& request) {
  const auto& fields = *request.GetDescriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    const FieldDescriptor& field = *fields.field(i);
    if (field.is_repeated() || field.type() != FieldDescriptor::TYPE_STRING) continue;
    const std::string name = request.GetReflection()->GetString(request, &field);
    if (name.size() > kBytesMax) {
      return {Code::kInvalidArgument, fmt::format("{}: has {} bytes, at most {} are allowed",
                                                  field.name(), name.size(), kBytesMax)};
    }
    if (!is_visible_name(name)) {
      return {Code::kInvalidArgument, fmt::format("{}: {}", field.name(), kVisibleName)};
    }
  }
  return {};
}

}  // namespace phub::server
