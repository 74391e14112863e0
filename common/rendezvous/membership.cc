#include "common/rendezvous/membership.h"

#include <algorithm>
#include <future>

namespace phub::client {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kLeaveTimeout{1000};

// What is left of `timeout` since `start`; at least a millisecond, so that the call still says
// what went wrong.
milliseconds remaining(std::chrono::steady_clock::time_point start, milliseconds timeout) {
  const auto elapsed =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
  return std::max(milliseconds(1), timeout - elapsed);
}

}  // namespace

Result<Membership> join_all(const std::vector<std::string>& addresses, const JobSpec& job,
                            milliseconds timeout, const ClientSecurity& security,
                            std::int32_t worker_index, const Membership* base,
                            const std::stop_token& stop) {
  if (addresses.empty()) {
    return Status(Code::kInvalidArgument, "servers: give at least one control address");
  }
  const auto start = std::chrono::steady_clock::now();
  Membership membership;
  const auto join_next = [&](const std::string& address) -> Status {
    PHUB_ASSIGN_OR_RETURN(auto rendezvous,
                          Rendezvous::create(address, security, membership.servers.size(), stop));
    const JoinInfo* const joined =
        base == nullptr ? nullptr : &base->joined[membership.servers.size()];
    PHUB_ASSIGN_OR_RETURN(JoinInfo info,
                          rendezvous->join(job, remaining(start, timeout), worker_index, joined));
    worker_index = static_cast<std::int32_t>(info.worker_index);
    membership.servers.push_back(std::move(rendezvous));
    membership.joined.push_back(std::move(info));
    return {};
  };
  for (const std::string& address : addresses) {
    const Status joined = join_next(address);
    if (joined.ok()) continue;
    leave_all(membership);
    return joined;
  }
  return membership;
}

Result<std::shared_ptr<const Plan>> agree_on_plan(const Membership& membership, const JobSpec& job,
                                                  milliseconds timeout) {
  std::vector<std::uint32_t> cores;
  std::vector<std::uint64_t> loads;
  for (const JoinInfo& joined : membership.joined) {
    cores.push_back(joined.cores);
    const auto& load = joined.core_load_bytes;
    loads.insert(loads.end(), load.begin(), load.end());
  }
  PHUB_ASSIGN_OR_RETURN(Plan plan, make_plan(plan_input(job, cores, loads)));
  for (std::uint32_t s = 0; s < membership.servers.size(); ++s) {
    PHUB_RETURN_IF_ERROR(membership.servers[s]->ready(cores, loads, s, plan.hash, timeout));
  }
  return std::make_shared<const Plan>(std::move(plan));
}

Status start_all(const Membership& membership, const std::string& job,
                 const std::vector<std::string>& transport_reasons, milliseconds timeout) {
  const Rendezvous& first = *membership.servers.front();
  for (std::size_t s = 0; s < membership.servers.size(); ++s) {
    Rendezvous& server = *membership.servers[s];
    PHUB_RETURN_IF_ERROR(server.start(timeout, transport_reasons[s]));
    if (server.rounds_before() == first.rounds_before()) continue;
    return {Code::kFailedPrecondition,
            "job " + job + " has " + std::to_string(first.rounds_before()) +
                " rounds behind it at server " + first.address() + " and " +
                std::to_string(server.rounds_before()) + " at server " + server.address() +
                ": restore the snapshots of one round on all of them (`phubctl snapshots`)"};
  }
  return {};
}

Result<std::vector<std::string>> snapshot_all(const Membership& membership, std::uint64_t round,
                                              milliseconds timeout) {
  std::vector<std::future<Result<std::string>>> asked;
  for (const auto& server : membership.servers) {
    asked.push_back(std::async(std::launch::async, [&server, round, timeout] {
      return server->snapshot(round, timeout);
    }));
  }
  std::vector<Result<std::string>> replies;
  for (auto& reply : asked) replies.push_back(reply.get());
  std::vector<std::string> files;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i]) return replies[i].error().with_context("snapshot");
    files.push_back(*replies[i] + " at " + membership.servers[i]->address());
  }
  return files;
}

void leave_all(const Membership& membership, const std::string& reason) {
  for (const auto& server : membership.servers) {
    static_cast<void>(server->leave(kLeaveTimeout, reason));
  }
}

}  // namespace phub::client
