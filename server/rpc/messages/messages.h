// The messages of control.proto <-> the plain values of the job table.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "proto/control.pb.h"
#include "server/jobs/table.h"

namespace phub::server {

// What a peer wrote, as logs and tables can show it: visible ASCII, a blank for each run of blanks
// and control characters, ' for ", ? for each other byte; cut after `chars_max`, which "..." then
// says.
std::string printable(std::string_view text, std::size_t chars_max);

// `Request` is any message that identifies its member.
template <typename Request>
Result<Identity> identity_from(const Request& request) {
  Identity identity{.job_id = request.job_id(),
                    .epoch = request.epoch(),
                    .worker = request.worker_index(),
                    .secret = {}};
  if (request.secret().size() != identity.secret.size()) {
    return Status(Code::kPermissionDenied, "secret: a worker's secret has 32 bytes");
  }
  std::copy(request.secret().begin(), request.secret().end(), identity.secret.begin());
  return identity;
}

enum class Keys : bool { kLeftOut, kIncluded };
void fill(const JobView& view, Keys keys, control::JobInfo& message);
void fill(const PlanView& view, control::PlanReply& message);

// For each core of each server of the plan, without RDMA ports.
void fill_loads(const PlanView& view, google::protobuf::RepeatedPtrField<control::CoreLoad>& loads);

}  // namespace phub::server
