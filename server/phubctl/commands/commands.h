// The commands of phubctl. Each asks the server and prints the answer, as a table or as JSON.
//
// One thread.
#pragma once

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

// What `job create` is given: a file, or the fields.
struct JobOptions {
  std::string file;  // JobSpec as textproto; empty: the fields below
  std::string name;
  std::uint32_t workers = 1;
  std::string wire_type = "fp32";
  std::string rule = "sum";
  std::string order = "deterministic";
  std::uint32_t chunk_kib = 32;
  float learning_rate = 0.0F;
  float momentum = 0.0F;
  float gradient_scale = 0.0F;
  std::optional<float> trust_coefficient;  // these three of rule lars only; nothing: the server's
  std::optional<float> trust_epsilon;
  std::vector<std::string> plain;  // names of keys at trust 1
  std::vector<std::string> keys;   // "name:elements" or "name:elements:weight_decay"
};

struct TopOptions {
  bool once = false;
  std::uint32_t interval_ms = 1000;
};

struct TraceOptions {
  std::string name;
  std::uint32_t rounds = 20;
  std::string output;  // empty: standard output
};

// Errors: kInvalidArgument names the option, and one that means nothing with the rule.
Status spec_from(const JobOptions& options, control::JobSpec& spec);

Status list_jobs(const Session& session);
Status inspect_job(const Session& session, const std::string& name, std::uint64_t job_id);
Status create_job(const Session& session, const JobOptions& options);
Status close_job(const Session& session, const std::string& name);
Status print_plan(const Session& session, const std::string& name, bool with_chunks);
Status print_statistics(const Session& session);
Status drain(const Session& session, std::uint32_t deadline_ms, bool snapshots);
Status top(const Session& session, const TopOptions& options);
Status explain_job(const Session& session, const std::string& name);
Status trace_job(const Session& session, const TraceOptions& options);

}  // namespace phub::phubctl
