// A client's options, each set by its name and a text: what C and Python have in place of a struct.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "worker/client/phub.h"

namespace phub::client {

class NamedOptions {
 public:
  // Names are those of the job (common/job/fields.h) and of the client: servers, job, worker_index,
  // transport, timeout_ms, credentials, tenant, run, require_encryption, tcp_congestion_control,
  // and compress.density, .dense_below, .error_feedback, .momentum, .warm_up_rounds and .selector,
  // of encodings other than dense. The last text that is set under a name counts. Errors:
  // kInvalidArgument names the option, and what is allowed or was probably meant.
  Status set(std::string_view name, std::string_view text);

  // What Client::connect takes. Errors: kInvalidArgument, or what the credentials' files say.
  Result<ClientOptions> options() const;

 private:
  control::JobSpec job_ = first_job();
  ClientOptions client_;
  std::string credentials_;  // a folder, or empty

  static control::JobSpec first_job();
};

}  // namespace phub::client
