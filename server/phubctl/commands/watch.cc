// top, job explain, trace: what people watch a running server with.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/visible.h"
#include "common/base/whole_file.h"
#include "server/phubctl/commands/commands.h"
#include "server/phubctl/explain/explain.h"

namespace phub::phubctl {
namespace {

constexpr double kExplainSecondsMin = 0.5, kExplainSecondsMax = 5.0;
constexpr double kExplainRounds = 4.0;  // fewer do not show that a job stands still

std::chrono::duration<double> explain_window(const control::JobTiming& timing) {
  return std::chrono::duration<double>(
      std::clamp(kExplainRounds * timing.round_seconds(), kExplainSecondsMin, kExplainSecondsMax));
}

Result<control::ServerInfo> server_of(const Session& session) {
  control::StatisticsReply reply;
  PHUB_RETURN_IF_ERROR(
      session.client.call(&control::Admin::Stub::Statistics, control::StatisticsRequest(), reply));
  return std::move(*reply.mutable_server());
}

Result<Look> look_at(const Session& session) {
  Look look;
  PHUB_ASSIGN_OR_RETURN(look.server, server_of(session));
  control::ListJobsRequest jobs;
  jobs.set_tenant(session.tenant);
  PHUB_RETURN_IF_ERROR(session.client.call(&control::Admin::Stub::ListJobs, jobs, look.jobs));
  look.at = std::chrono::steady_clock::now();
  return look;
}

struct Screen {
  std::size_t columns = 0;  // 0: standard output is no terminal
  std::size_t lines = 0;
};

Screen screen_now() {
  if (::isatty(STDOUT_FILENO) != 1) return {};
  winsize size{};
  const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? Screen{.columns = size.ws_col, .lines = size.ws_row}
                  : Screen{.columns = 120, .lines = 50};
}

void draw(const std::string& text) {
  const Screen screen = screen_now();
  fmt::print("{}", screen_of(visible(text), screen.columns, screen.lines));
  std::fflush(stdout);
}

// Goes on when the server does not answer: it may come back.
[[noreturn]] void watch(const Session& session, std::chrono::milliseconds interval, Look before) {
  fmt::print("\x1b[2J");
  for (;;) {
    std::this_thread::sleep_for(interval);
    Result<Look> now = look_at(session);
    if (!now) {
      draw(now.error().message() + "\n(asked again; Ctrl-C ends)\n");
      continue;
    }
    const bool is_another = now->server.uptime_seconds() < before.server.uptime_seconds();
    draw(top_text(is_another ? *now : before, *now, screen_now().columns));
    before = std::move(*now);
  }
}

// At another server.
Result<control::JobInfo> job_at(const Session& session, const std::string& address,
                                const control::InspectJobRequest& request) {
  PHUB_ASSIGN_OR_RETURN(const auto client, session.connect(address));
  control::InspectJobReply reply;
  const Status status = client->call(&control::Admin::Stub::InspectJob, request, reply);
  if (!status.ok()) return status.with_context("--also " + address);
  return std::move(*reply.mutable_job());
}

bool has_failed(const control::JobInfo& job) { return job.state() == control::JOB_STATE_FAILED; }

// Nothing: the server does not tell, or not in time.
std::optional<std::vector<control::SnapshotInfo>> snapshots_of(const Session& session) {
  control::ListSnapshotsReply reply;
  const Status listed =
      session.client.call(&control::Snapshots::Stub::List, control::ListSnapshotsRequest(), reply);
  const bool has_none = listed.code() == Code::kFailedPrecondition;  // it keeps none
  if (!listed.ok() && !has_none) return {};
  return std::vector<control::SnapshotInfo>(reply.snapshots().begin(), reply.snapshots().end());
}

}  // namespace

Status top(const Session& session, const TopOptions& options) {
  const std::chrono::milliseconds interval(options.interval_ms);
  PHUB_ASSIGN_OR_RETURN(Look before, look_at(session));
  const bool is_live = !options.once && !session.as_json && ::isatty(STDOUT_FILENO) == 1;
  if (is_live) watch(session, interval, std::move(before));
  std::this_thread::sleep_for(interval);  // rates are of this time
  PHUB_ASSIGN_OR_RETURN(const Look now, look_at(session));
  print(session.as_json ? top_json(before, now) : top_text(before, now, screen_now().columns));
  return {};
}

Status explain_job(const Session& session, const ExplainOptions& options) {
  const std::string& name = options.name;
  const auto request = session.about<control::InspectJobRequest>(name);
  const auto inspect = [&](control::InspectJobReply& job) {
    return session.with_other_tenants(
        name, session.client.call(&control::Admin::Stub::InspectJob, request, job));
  };
  control::InspectJobReply before, job;
  PHUB_RETURN_IF_ERROR(inspect(before));
  Looks looks;
  looks.job_before = before.job();
  if (has_failed(before.job())) looks.snapshots = snapshots_of(session);
  // Busy shares are of the time since somebody last asked: twice, for a share of now.
  PHUB_ASSIGN_OR_RETURN(looks.before, server_of(session));
  std::this_thread::sleep_for(explain_window(before.job().timing()));
  PHUB_RETURN_IF_ERROR(inspect(job));
  PHUB_ASSIGN_OR_RETURN(looks.now, server_of(session));
  for (const std::string& address : options.also) {
    PHUB_ASSIGN_OR_RETURN(auto there, job_at(session, address, request));
    looks.in_other_racks.push_back(std::move(there));
  }
  print(session.as_json ? explanation_json(job.job(), looks) : explanation_text(job.job(), looks));
  return {};
}

Status trace_job(const Session& session, const TraceOptions& options) {
  auto request = session.about<control::TraceRequest>(options.name);
  request.set_rounds(options.rounds);
  control::TraceReply reply;
  PHUB_RETURN_IF_ERROR(session.with_other_tenants(
      options.name, session.client.call(&control::Admin::Stub::Trace, request, reply)));
  if (reply.records().empty()) {
    control::InspectJobReply job;
    PHUB_RETURN_IF_ERROR(
        session.client.call(&control::Admin::Stub::InspectJob,
                            session.about<control::InspectJobRequest>(options.name), job));
    if (job.job().spec().rounds().quorum() > 0) {
      return {
          Code::kFailedPrecondition,
          fmt::format("job \"{}\" has a quorum: its chunks have no rounds together, so there is "
                      "no trace; `phubctl job inspect` and `explain` show what is late",
                      options.name)};
    }
    const bool is_over = job.job().state() == control::JOB_STATE_ENDED ||
                         job.job().state() == control::JOB_STATE_FAILED;
    return {Code::kFailedPrecondition,
            is_over ? fmt::format("job \"{}\" is over, and rounds are kept while it runs only; "
                                  "trace it then",
                                  options.name)
                    : fmt::format("job \"{}\" has no complete round here yet; ask again in a "
                                  "moment",
                                  options.name)};
  }
  const std::string trace = chrome_trace(options.name, reply);
  if (options.output.empty()) {
    print(trace);
    return {};
  }
  auto reader = reader_of(options.output);
  if (!reader) return reader.error().with_context("--output");
  std::ofstream file(options.output, std::ios::binary | std::ios::trunc);
  file << trace << '\n';
  file.close();
  if (!file) {
    return {Code::kInvalidArgument,
            fmt::format("--output: {} cannot be written; is there such a folder, and room?",
                        options.output)};
  }
  print(session.as_json ? fmt::format("{{\"records\":{}}}", reply.records_size())
                        : fmt::format("{} records, each a round of a core, are in {}; open it with "
                                      "https://ui.perfetto.dev or "
                                      "chrome://tracing",
                                      reply.records_size(), options.output));
  return {};
}

}  // namespace phub::phubctl
