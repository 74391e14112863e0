// The messages of control.proto <-> the plain values of the job table, of the cores and of tenants.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "proto/control.pb.h"
#include "server/jobs/table.h"

namespace phub::server {

// What a peer wrote, as logs and tables can show it: visible ASCII, a blank for each run of blanks
// and control characters, ' for ", ? for each other byte; cut after `chars_max`, which "..." then
// says.
std::string printable(std::string_view text, std::size_t chars_max);

// Of all texts of `request` itself, before anything is looked up by them or said about them; what
// its members carry is checked where they are used. Errors: kInvalidArgument names the field and
// what is allowed, and repeats nothing.
Status check_names(const google::protobuf::Message& request);

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
// What to look at where a job has failed, and whether and how it can be resumed: a clause without a
// full stop, as all cures are. Empty: it has not failed.
std::string cure_of(const JobView& view);
// What of the worker in this seat was not finite, if anything.
void fill_values(const JobView& view, std::uint32_t seat, control::Member& message);
void fill_corruption(const JobView& view, std::uint32_t seat, control::Member& message);

// For each core of each server of the plan, without RDMA ports.
void fill_loads(const PlanView& view, google::protobuf::RepeatedPtrField<control::CoreLoad>& loads);
// Says of this server's core loads, which are in the message, which port serves them, and adds the
// load of each port.
void fill_ports(const PlanView& view, control::PlanReply& message);
void fill(const PortStatus& status, control::PortInfo& message);

// What cores and jobs spend their time on. A job that has not had two rounds yet has only its
// histograms.
void fill(const JobView& view, const std::optional<JobTiming>& timing, control::JobTiming& message);
// The jobs of one core, with the names of `views`; a job without a view is left out.
void fill(const std::vector<CoreJobCounters>& jobs, const std::map<std::uint64_t, JobView>& views,
          control::CoreInfo& message);
// `view`: of the job whose rounds they are.
void fill(const JobView& view, const std::vector<CoreRounds>& rounds, control::TraceReply& message);

// Leaves in `server`, which tenants share, what is the tenant's own and what is nobody's: its jobs
// on the cores, how busy each core is, the ports without their counters. Counts of a core become
// those of its own jobs, figures of all tenants together become 0. `usage`: the tenant's.
void redact_other_tenants(const std::string& tenant, const Usage& usage,
                          control::ServerInfo& server);

}  // namespace phub::server
