// What a client refuses before it asks any server.
#pragma once

#include "worker/client/phub.h"

namespace phub::client {

// Error: kInvalidArgument, or what the credentials' files say; it names the option and the cure.
Status check_options(const ClientOptions& options);

// Whether the job votes, and on such a vote.
Status check_vote(const ClientOptions& options, const Vote& vote);

}  // namespace phub::client
