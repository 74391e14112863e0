#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <thread>

#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWriteTimeout{60'000};  // beyond the wait for the round
// How long the servers may take to hear of the round that is to be taken.
constexpr double kNoticeSeconds = 0.5;
// A job whose rounds do not go on for so long is at rest.
constexpr double kRestRounds = 3;
constexpr milliseconds kLook{50};

struct Server {
  std::string address;
  AdminClient* client;
};

// Where the servers are in a job.
struct Position {
  std::uint64_t first = 0;  // rounds that the slowest has behind it
  std::uint64_t last = 0;   // and the fastest
  std::uint64_t next = 0;   // a round that none has reached when all know of it
  double round_seconds = 0.0;
};

Result<Position> position_of(const Session& session, const std::vector<Server>& servers,
                             const std::string& job) {
  Position all{.first = UINT64_MAX};
  for (const Server& server : servers) {
    const auto request = session.about<control::InspectJobRequest>(job);
    control::InspectJobReply reply;
    const Status status = server.client->call(&control::Admin::Stub::InspectJob, request, reply);
    if (!status.ok()) return status.with_context("server " + server.address);
    const double seconds = reply.job().timing().round_seconds();
    const double ahead = seconds > 0 ? std::ceil(kNoticeSeconds / seconds) : 2;
    const std::uint64_t rounds = reply.job().statistics().rounds();
    all.first = std::min(all.first, rounds);
    all.last = std::max(all.last, rounds);
    all.next = std::max(all.next, rounds + 1 + static_cast<std::uint64_t>(ahead));
    all.round_seconds = std::max(all.round_seconds, seconds);
  }
  return all;
}

// The round that all servers are to take. For a job at rest it is the round that the job is in. For
// another job it is one that no server has reached when all know of it.
Result<std::uint64_t> common_round(const Session& session, const std::vector<Server>& servers,
                                   const std::string& job) {
  PHUB_ASSIGN_OR_RETURN(const Position begin, position_of(session, servers, job));
  const double patience = std::max(kNoticeSeconds, kRestRounds * begin.round_seconds);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  while (begin.first == begin.last) {
    PHUB_ASSIGN_OR_RETURN(const Position now, position_of(session, servers, job));
    if (now.first != begin.first || now.last != begin.last) return now.next;
    if (std::chrono::steady_clock::now() > end) return begin.first;
    std::this_thread::sleep_for(kLook);
  }
  return begin.next;
}

// Whether the job has a quorum: then its chunks have no rounds together, and the first server says
// which round its snapshot is, for the others.
Result<bool> check_round(const Session& session, const SnapshotOptions& options) {
  control::InspectJobReply reply;
  const auto request = session.about<control::InspectJobRequest>(options.job);
  PHUB_RETURN_IF_ERROR(session.with_other_tenants(
      options.job, session.client.call(&control::Admin::Stub::InspectJob, request, reply)));
  const bool has_quorum = reply.job().spec().rounds().quorum() > 0;
  if (!has_quorum || options.round == 0) return has_quorum;
  return Status(Code::kInvalidArgument,
                fmt::format("--round: job \"{}\" has a quorum, and its chunks have no rounds "
                            "together; leave it out",
                            options.job));
}

void print_taken(const std::vector<Server>& servers, const std::vector<control::TakeReply>& taken) {
  Table table("SERVER|>ROUND|>SIZE|>PAUSE|>TIME|FILE");
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const control::SnapshotInfo& info = taken[i].snapshot();
    table.add({servers[i].address, std::to_string(info.round()), human_bytes(info.bytes()),
               fmt::format("{:.1f} ms", taken[i].pause_seconds() * 1e3),
               fmt::format("{:.2f} s", taken[i].seconds()), info.file()});
  }
  print(table.to_string());
}

}  // namespace

Status take_snapshot(const Session& session, const SnapshotOptions& options) {
  std::vector<Server> servers = {{session.client.address(), &session.client}};
  std::vector<std::unique_ptr<AdminClient>> others;
  for (const std::string& address : options.also) {
    PHUB_ASSIGN_OR_RETURN(auto client, session.connect(address));
    others.push_back(std::move(client));
    servers.push_back({address, others.back().get()});
  }
  auto request = session.about<control::TakeRequest>(options.job);
  request.set_round(options.round);
  request.set_timeout_ms(options.wait_ms);
  PHUB_ASSIGN_OR_RETURN(const bool has_quorum, check_round(session, options));
  if (options.round == 0 && servers.size() > 1 && !has_quorum) {
    PHUB_ASSIGN_OR_RETURN(const std::uint64_t round, common_round(session, servers, options.job));
    request.set_round(round);
  }
  std::vector<control::TakeReply> taken(servers.size());
  std::vector<std::future<Status>> calls;
  const auto take = [&](std::size_t i, const control::TakeRequest& one) {
    return servers[i].client->call(&control::Snapshots::Stub::Take, one, taken[i],
                                   milliseconds(options.wait_ms) + kWriteTimeout);
  };
  if (has_quorum && servers.size() > 1) {
    PHUB_RETURN_IF_ERROR(take(0, request).with_context("server " + servers[0].address));
    request.set_round(taken[0].snapshot().round());
  }
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (taken[i].has_snapshot()) {  // the first, of a job with a quorum
      calls.push_back(std::async(std::launch::deferred, [] { return Status(); }));
      continue;
    }
    calls.push_back(std::async(std::launch::async, [&, i] { return take(i, request); }));
  }
  Code failed = Code::kOk;
  std::string what;  // became of it at each server
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Status call = calls[i].get();
    if (failed == Code::kOk) failed = call.code();
    what += fmt::format("{}server {}: {}", what.empty() ? "" : "; ", servers[i].address,
                        call.ok() ? "it took " + taken[i].snapshot().file() : call.message());
  }
  if (failed != Code::kOk) return {failed, what};
  if (!session.as_json) {
    print_taken(servers, taken);
    return {};
  }
  for (const control::TakeReply& reply : taken) print(message_json(reply));
  return {};
}

Status list_snapshots(const Session& session) {
  const auto text = [](const control::ListSnapshotsReply& reply) {
    Table table("TENANT|JOB|>ROUND|>SIZE|CREATED|FILE");
    for (const control::SnapshotInfo& info : reply.snapshots()) {
      table.add({info.tenant(), info.job(), std::to_string(info.round()), human_bytes(info.bytes()),
                 info.created(), info.file()});
    }
    return table.to_string();
  };
  return session.show(&control::Snapshots::Stub::List, control::ListSnapshotsRequest(), text);
}

Status delete_snapshot(const Session& session, const std::string& file) {
  control::DeleteSnapshotRequest request;
  request.set_file(file);
  return session.show(&control::Snapshots::Stub::Delete, request, [&](const auto& reply) {
    return fmt::format("{} is deleted, {} are free again", file, human_bytes(reply.bytes()));
  });
}

Status restore_snapshot(const Session& session, const RestoreOptions& options) {
  control::RestoreRequest request;
  request.set_file(options.file);
  request.set_name(options.name);
  request.set_workers(options.workers);
  control::RestoreReply reply;
  PHUB_RETURN_IF_ERROR(
      session.client.call(&control::Snapshots::Stub::Restore, request, reply, kWriteTimeout));
  if (session.as_json) {
    print(message_json(reply));
    return {};
  }
  const control::SnapshotInfo& info = reply.snapshot();
  print(fmt::format("job \"{}\" (id {}) waits for its workers and starts from round {} of \"{}\"",
                    options.name.empty() ? info.job() : options.name, reply.job_id(), info.round(),
                    info.job()));
  for (const std::string& note : reply.notes()) print("  " + note);
  return {};
}

}  // namespace phub::phubctl
