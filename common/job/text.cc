#include "common/job/text.h"

#include <google/protobuf/util/json_util.h>

#include "common/job/check.h"
#include "common/job/message.h"
#include "common/job/used_hyper.h"

namespace phub {
namespace {

control::JobSpec message_with_keys(const JobSpec& spec) {
  control::JobSpec message;
  fill(spec, message);
  add_keys(spec.keys, message);
  return message;
}

// Sets a learning rate and momentum that the rule does not read to 0: earlier versions stored them.
Result<JobSpec> stored_spec(const control::JobSpec& message) {
  PHUB_ASSIGN_OR_RETURN(JobSpec spec, spec_from(message));
  spec.hyper = used_by(spec.rule, spec.hyper);
  PHUB_RETURN_IF_ERROR(validate(spec));
  return spec;
}

}  // namespace

std::string text_of(const JobSpec& spec) {
  std::string text;
  // Fails for messages of type Any only.
  static_cast<void>(google::protobuf::util::MessageToJsonString(message_with_keys(spec), &text));
  return text;
}

Result<JobSpec> spec_from_text(const std::string& text) {
  control::JobSpec message;
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, &message);
  if (!parsed.ok()) {
    return Status(Code::kDataLoss, "its job is no JobSpec: " + std::string(parsed.message()));
  }
  PHUB_ASSIGN_OR_RETURN(JobSpec spec, stored_spec(message));
  if (spec.keys.empty()) return Status(Code::kDataLoss, "its job has no keys");
  return spec;
}

std::string bytes_of(const JobSpec& spec) { return message_with_keys(spec).SerializeAsString(); }

Result<JobSpec> spec_from_bytes(const std::string& bytes) {
  control::JobSpec message;
  if (!message.ParseFromString(bytes)) return Status(Code::kDataLoss, "its spec does not parse");
  return stored_spec(message);
}

}  // namespace phub
