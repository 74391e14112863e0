// The names that a request carries, looked at before anything is looked up by them or said about
// them: an error that repeats one is short and can be shown.
//
// Pure functions; any thread.
#pragma once

#include <google/protobuf/message.h>

#include "common/base/status.h"

namespace phub::server {

// Of all texts of `request` itself; what its members carry is checked where they are used. Errors:
// kInvalidArgument names the field and what is allowed, and repeats nothing.
Status check_names(const google::protobuf::Message& request);

}  // namespace phub::server
