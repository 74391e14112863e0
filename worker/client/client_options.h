// What a client refuses before it asks any server.
#pragma once

#include "worker/client/phub.h"

namespace phub::client {

// Error: kInvalidArgument, or what the credentials' files say; it names the option and the cure.
Status check_options(const ClientOptions& options);

}  // namespace phub::client
