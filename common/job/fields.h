// The fields of a job's message by their names, as configurations, `phubctl --set` and the C
// interface have them: "rule", "rounds.quorum", "rack_compress.density".
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace phub {

// Reads `text` into the field of that name. A number is decimal, a boolean is true or false, an
// enumerator is its word, such as "adamw". The racks are "a:4,b:4"; they set `workers` too.
// Errors: kInvalidArgument names the field, and what is allowed or was probably meant.
Status set_field(std::string_view name, std::string_view text, control::JobSpec& job);

// A value as `set_field` reads it; "nothing" for one that is left out. `field` is one of `owner`'s,
// and no group.
std::string value_text(const google::protobuf::Message& owner,
                       const google::protobuf::FieldDescriptor& field);

// The same of the field of that name.
std::string field_text(std::string_view name, const control::JobSpec& job);

struct FieldInfo {
  std::string name;
  std::string kind;  // what `set_field` takes: "number", "true or false", "fp32, fp16 or bf16"
};

// All fields but `keys`, which clients register, in the order of the message.
std::vector<FieldInfo> job_fields();

}  // namespace phub
