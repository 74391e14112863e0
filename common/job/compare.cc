// Which specs are the same job.
#include <google/protobuf/util/message_differencer.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/job/check.h"
#include "common/job/fields.h"
#include "common/job/invalid.h"
#include "common/job/message.h"

namespace phub {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

// The first field that differs, with both values.
class Difference final : public MessageDifferencer::Reporter {
 public:
  using Path = std::vector<MessageDifferencer::SpecificField>;

  Difference(const Message& ours, const Message& theirs) : ours_(&ours), theirs_(&theirs) {}

  // What it is called with may be the root or what has the field.
  void ReportAdded(const Message& /*m*/, const Message& /*n*/, const Path& path) override {
    note(path);
  }
  void ReportDeleted(const Message& /*m*/, const Message& /*n*/, const Path& path) override {
    note(path);
  }
  void ReportModified(const Message& /*m*/, const Message& /*n*/, const Path& path) override {
    note(path);
  }

  // `what` goes before the field's name: "", or "keys[3] (\"w\") ".
  Status status(std::string_view what) const {
    return invalid("{}{} is {} in the job but {} in this join; all workers must agree", what, name_,
                   our_text_, their_text_);
  }

 private:
  void note(const Path& path) {
    if (!name_.empty()) return;
    const Message* ours = ours_;
    const Message* theirs = theirs_;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const FieldDescriptor& field = *path[i].field;
      name_ += (i == 0 ? "" : ".") + field.name();
      if (i + 1 == path.size() || field.is_repeated()) {
        our_text_ = value_text(*ours, field);
        their_text_ = value_text(*theirs, field);
        return;
      }
      ours = &ours->GetReflection()->GetMessage(*ours, &field);
      theirs = &theirs->GetReflection()->GetMessage(*theirs, &field);
    }
  }

  const Message* ours_;
  const Message* theirs_;
  std::string name_, our_text_, their_text_;
};

Status same(std::string_view what, const Message& existing, const Message& joining) {
  Difference difference(existing, joining);
  MessageDifferencer differencer;
  differencer.ReportDifferencesTo(&difference);
  return differencer.Compare(existing, joining) ? Status() : difference.status(what);
}

// Where a group of fields is left out at one side, its fields differ one by one.
control::JobSpec message_of(const JobSpec& spec) {
  control::JobSpec message;
  fill(spec, message);
  message.clear_name();                       // who joins has asked for it
  message.set_tcp_streams(spec.tcp_streams);  // the message leaves out 1
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_repeated()) continue;
    message.GetReflection()->MutableMessage(&message, &field);
  }
  return message;
}

// There may be a million keys. Only those that differ become messages.
Status compare_keys(const std::vector<KeySpec>& existing, const std::vector<KeySpec>& joining) {
  if (existing.size() != joining.size()) {
    return invalid("number of keys is {} in the job but {} in this join; all workers must agree",
                   existing.size(), joining.size());
  }
  for (std::size_t i = 0; i < existing.size(); ++i) {
    if (existing[i] == joining[i]) continue;
    control::JobSpec ours, theirs;
    add_keys({existing[i]}, ours);
    add_keys({joining[i]}, theirs);
    return same(fmt::format("keys[{}] (\"{}\") ", i, existing[i].name), ours.keys(0),
                theirs.keys(0));
  }
  return {};
}

}  // namespace

Status compare(const JobSpec& existing, const JobSpec& joining) {
  PHUB_RETURN_IF_ERROR(same("", message_of(existing), message_of(joining)));
  return existing.keys.empty() ? Status() : compare_keys(existing.keys, joining.keys);
}

}  // namespace phub
