#include "common/rendezvous/membership.h"

#include <algorithm>
#include <optional>
#include <utility>

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

// Deletes what some servers have of a round that others lack. Else these files would push out older
// ones that all servers have. A server that cannot be asked, or does not let this worker, keeps it.
void drop_snapshots(const Membership& membership,
                    const std::vector<Result<Rendezvous::Files>>& replies) {
  std::vector<Later<Status>> asked;
  for (std::size_t server = 0; server < replies.size(); ++server) {
    if (!replies[server]) continue;
    const std::string& own = replies[server]->front();
    const std::string file = own.substr(0, own.rfind(" at "));
    asked.push_back(membership.servers[server]->begin_delete_snapshot(file, kLeaveTimeout));
  }
  for (const auto& deleted : asked) static_cast<void>(deleted());
}

}  // namespace

Result<Membership> join_all(const std::vector<std::string>& addresses, const JobSpec& job,
                            milliseconds timeout, const ClientSecurity& security,
                            std::int32_t worker_index, const Membership* base,
                            const std::stop_token& stop, bool after_first) {
  if (addresses.empty()) {
    return Status(Code::kInvalidArgument, "servers: give at least one control address");
  }
  const auto start = std::chrono::steady_clock::now();
  Membership all;
  for (const std::string& address : addresses) {
    PHUB_ASSIGN_OR_RETURN(auto server,
                          Rendezvous::create(address, security, all.servers.size(), stop));
    all.servers.push_back(std::move(server));
  }
  std::vector<std::optional<JoinInfo>> joined(addresses.size());
  Status failure;
  const auto join = [&](std::size_t first, std::size_t end) {
    std::vector<Later<Result<JoinInfo>>> asked;
    for (std::size_t server = first; server < end; ++server) {
      const JoinInfo* const there = base == nullptr ? nullptr : &base->joined[server];
      asked.push_back(all.servers[server]->begin_join(
          job, remaining(start, timeout), worker_index, there,
          {.after_first = after_first,
           .waits = !after_first || (server == 0 && worker_index != 0)}));
    }
    for (std::size_t i = 0; i < asked.size(); ++i) {
      Result<JoinInfo> info = asked[i]();
      if (info) joined[first + i] = std::move(*info);
      if (!info && failure.ok()) failure = info.error();
    }
    return failure.ok();
  };
  // After a loss worker 0 comes to server 0 last, where the others wait for it. So they find it at
  // all servers, and nobody is a member at one of them while it waits at another one.
  if (after_first && worker_index == 0) {
    if (join(1, addresses.size())) join(0, 1);
  } else if (join(0, 1)) {
    worker_index = static_cast<std::int32_t>(joined.front()->worker_index);
    join(1, addresses.size());
  }
  Membership membership;
  for (std::size_t server = 0; server < joined.size(); ++server) {
    if (!joined[server]) continue;
    membership.servers.push_back(std::move(all.servers[server]));
    membership.joined.push_back(std::move(*joined[server]));
  }
  if (failure.ok()) return membership;
  leave_all(membership);
  return failure;
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
  std::vector<Later<Status>> asked;
  for (std::uint32_t s = 0; s < membership.servers.size(); ++s) {
    asked.push_back(membership.servers[s]->begin_ready(cores, loads, s, plan.hash, timeout));
  }
  for (const auto& ready : asked) PHUB_RETURN_IF_ERROR(ready());
  return std::make_shared<const Plan>(std::move(plan));
}

Status start_all(const Membership& membership, const std::string& job,
                 const std::vector<std::string>& transport_reasons, milliseconds timeout) {
  std::vector<Later<Status>> asked;
  for (std::size_t s = 0; s < membership.servers.size(); ++s) {
    asked.push_back(membership.servers[s]->begin_start(timeout, transport_reasons[s]));
  }
  for (const auto& started : asked) PHUB_RETURN_IF_ERROR(started());
  const Rendezvous& first = *membership.servers.front();
  for (const auto& each : membership.servers) {
    const Rendezvous& server = *each;
    if (server.before().rounds == first.before().rounds) continue;
    return {Code::kFailedPrecondition,
            "job " + job + " has " + std::to_string(first.before().rounds) +
                " rounds behind it at server " + first.address() + " and " +
                std::to_string(server.before().rounds) + " at server " + server.address() +
                ": restore the snapshots of one round on all of them (`phubctl snapshots`)"};
  }
  return {};
}

Status note_samples_all(const Membership& membership, const SampleLedger& ledger,
                        milliseconds timeout) {
  std::vector<Later<Status>> asked;
  for (const auto& server : membership.servers) {
    asked.push_back(server->begin_note_samples(ledger, timeout));
  }
  Status first;
  for (const auto& noted : asked) {
    const Status status = noted();
    if (first.ok()) first = status;
  }
  return first;
}

Result<std::vector<std::string>> snapshot_all(const Membership& membership, std::uint64_t round,
                                              milliseconds timeout) {
  std::vector<Later<Result<Rendezvous::Files>>> asked;
  for (const auto& server : membership.servers) {
    asked.push_back(server->begin_snapshot(round, timeout));
  }
  std::vector<Result<Rendezvous::Files>> replies;
  for (const auto& reply : asked) replies.push_back(reply());
  std::vector<std::string> files;
  for (const auto& reply : replies) {
    if (!reply) {
      drop_snapshots(membership, replies);
      return reply.error().with_context("snapshot");
    }
    files.insert(files.end(), reply->begin(), reply->end());
  }
  return files;
}

void leave_all(const Membership& membership, const std::string& reason) {
  std::vector<Later<Status>> asked;
  for (const auto& server : membership.servers) {
    asked.push_back(server->begin_leave(kLeaveTimeout, reason));
  }
  for (const auto& left : asked) static_cast<void>(left());
}

}  // namespace phub::client
