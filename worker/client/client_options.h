// What a client tells its servers about the job, and what it refuses before it asks any.
#pragma once

#include "common/job/spec.h"
#include "worker/client/phub.h"

namespace phub::client {

// Error: kInvalidArgument, or what the credentials' files say; it names the option and the cure.
Status check_options(const ClientOptions& options);

// Of keys that are to be registered. Error: kInvalidArgument; it names the key and the cure.
Status check_keys(const ClientOptions& options, const std::vector<KeySpec>& keys);

JobSpec describe_job(const ClientOptions& options, const std::vector<KeySpec>& keys);

// Of Client::set_hyper.
Status check_hyper(const ClientOptions& options, const Hyper& hyper);

// Whether the job votes, and on a scale as it was given to `call`.
Status check_loss_scale(const ClientOptions& options, const std::string& call, float scale);
// `pushed`: the scale that the round's gradients were compressed with.
Status check_same_scale(float pushed, float voted);
// Whether the job votes, and on such a vote.
Status check_vote(const ClientOptions& options, const Vote& vote);

}  // namespace phub::client
