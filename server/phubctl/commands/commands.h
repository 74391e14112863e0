// The commands of phubctl. Each asks the server and prints the answer, as a table or as JSON.
//
// One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/phubctl/commands/client.h"

namespace phub::phubctl {

// What a command line asks for, to be run when a server is connected.
using Command = std::function<Status(const Session&)>;

// What a prediction knows better than the probe or the spec; 0: it does not.
struct PlanOptions {
  double bytes = 0.0;  // of the model
  double worker_gbit = 0.0;
  double server_gbit = 0.0;
};

// One field of a job, as a command line gives it.
struct Setting {
  std::string flag;   // that gave it, for people: "--rule", "--set rule"
  std::string field;  // common/job/fields.h
  std::string text;
};

// What `job create` is given: a file, and fields in place of the file's.
struct JobOptions {
  std::string file;  // JobSpec as textproto; empty: the defaults
  std::string name;
  std::vector<Setting> settings;
  std::vector<std::string> exclude_from_lars;  // names of keys at trust 1
  std::vector<std::string> keys;               // "name:elements" or "name:elements:weight_decay"
  bool chooses_shape = false;                  // by what the last probe says
  PlanOptions plan;                            // for that
};

struct ProbeOptions {
  double seconds = 0.2;    // of each of five measurements of a pair
  std::uint32_t mib = 64;  // in either direction at most
  bool last = false;       // shows the last one, measures nothing
};

struct TopOptions {
  bool once = false;
  std::uint32_t interval_ms = 1000;
};

struct ExplainOptions {
  std::string name;
  std::vector<std::string> also;  // servers of the job's other racks
};

struct TraceOptions {
  std::string name;
  std::uint32_t rounds = 20;
  std::string output;  // empty: standard output
};

struct SnapshotOptions {
  std::string job;
  std::uint64_t round = 0;  // 0: as soon as possible
  std::uint32_t wait_ms = 30'000;
  std::vector<std::string> also;  // the job's other servers
};

struct RestoreOptions {
  std::string file;
  std::string name;           // of the new job; empty: as it was
  std::uint32_t workers = 0;  // 0: as many as it had
};

struct TenantOptions {
  std::string name;
  std::optional<std::uint64_t> memory_mib, disk_mib;
  std::optional<std::uint32_t> connections, jobs, weight;
  std::optional<std::string> shared_id;
  bool close_jobs = false;
};

struct TokenOptions {
  std::string tenant;
  std::string role = "tenant";
  std::string label;
  double lifetime_hours = 0.0;  // 0: for ever
  std::string save;             // a file to write the token to, instead of printing it
  std::uint64_t id = 0;         // revoke
};

// Errors: kInvalidArgument names the option, and one that means nothing with the rule.
Status spec_from(const JobOptions& options, control::JobSpec& spec);

Status list_jobs(const Session& session);
Status inspect_job(const Session& session, const std::string& name, std::uint64_t job_id);
Status create_job(const Session& session, const JobOptions& options);
Status close_job(const Session& session, const std::string& name);
Status print_plan(const Session& session, const std::string& name, bool with_chunks);
Status print_statistics(const Session& session);
Status list_racks(const Session& session);
// Has every pair of servers measured, and says which jobs would have another shape by that.
Status probe(const Session& session, const ProbeOptions& options);
// What each shape would take, for the racks and the keys of `options`.
// `job fields`. It asks no server.
Status print_fields(bool as_json);

Status print_shapes(const Session& session, const JobOptions& options);
Status explain_plan(const Session& session, const std::string& name, const PlanOptions& options);
// The shape by the last probe, which is told.
Status choose_rack_shape(const Session& session, const PlanOptions& options,
                         control::JobSpec& spec);
Status drain(const Session& session, std::uint32_t deadline_ms, bool snapshots);
Status top(const Session& session, const TopOptions& options);
Status explain_job(const Session& session, const ExplainOptions& options);
Status trace_job(const Session& session, const TraceOptions& options);

// Of several servers all at the same round.
Status take_snapshot(const Session& session, const SnapshotOptions& options);
Status list_snapshots(const Session& session);
Status delete_snapshot(const Session& session, const std::string& file);
Status restore_snapshot(const Session& session, const RestoreOptions& options);

// What --lifetime-hours means to the server. Errors: kInvalidArgument, also for what is no number.
Result<std::uint64_t> lifetime_seconds(double hours);

Status create_tenant(const Session& session, const TenantOptions& options);
Status list_tenants(const Session& session);
Status inspect_tenant(const Session& session, const TenantOptions& options);
Status set_tenant(const Session& session, const TenantOptions& options);
Status delete_tenant(const Session& session, const TenantOptions& options);

Status create_token(const Session& session, const TokenOptions& options);
Status list_tokens(const Session& session, const TokenOptions& options);
Status revoke_token(const Session& session, const TokenOptions& options);

Status print_audit(const Session& session, std::uint32_t count);

// A line for each core; with RDMA each says which port serves it, and the ports have a line each.
std::string loads_text(const control::PlanReply& plan);
// Of a job of several racks: its trees, and a line for each link to another rack. Else empty.
std::string racks_text(const control::JobInfo& job);
// Of a plan for several racks: what is rooted in each. Else empty.
std::string roots_text(const control::PlanReply& plan);
// A line for each port, with what it has carried, then one for each counter of errors or congestion
// that is not zero. Empty without ports.
std::string ports_text(const control::ServerInfo& server);

// What the server said at one time.
struct Look {
  std::chrono::steady_clock::time_point at;
  control::ServerInfo server;
  control::ListJobsReply jobs;
};

// Tables of cores, jobs and refused input. On a terminal of so many columns the least important
// columns of a table go and long names are cut, and it says so; 0: nothing is cut. REQUIRES:
// `before` is of the same server, not later.
std::string top_text(const Look& before, const Look& now, std::size_t columns = 0);

// {"server": ..., "jobs": [...], "rates": [{"job_id", "rounds_per_second",
// "bytes_received_per_second", "bytes_sent_per_second"}, ...]} on one line.
std::string top_json(const Look& before, const Look& now);

// `text` for a screen of that size, drawn over what is there. A line that is cut at its right edge
// ends in ">". The last line says how many more there are. The rest of the screen is cleared.
std::string screen_of(const std::string& text, std::size_t columns, std::size_t lines);

// The last rounds of a job as a Chrome trace (JSON object format), for Perfetto or
// chrome://tracing.
//
// One process for each core, one for each worker and one for each other rack; a core's spans are
// push, wait, (with racks) racks, aggregate and reply, a worker's are those of its own pushes on
// each core, a rack's is from its first sum or reply to its last. Rounds may overlap by a few
// chunks: even and odd ones have threads of their own, as spans of one thread must nest. Times are
// microseconds since the first push of the first round.
std::string chrome_trace(const std::string& job, const control::TraceReply& trace);

}  // namespace phub::phubctl
