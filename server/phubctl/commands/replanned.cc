#include "server/phubctl/commands/replanned.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/plans.h"

namespace phub::phubctl {
namespace {

constexpr double kWorthwhile = 0.99;  // of the time as it is: probes differ from run to run

std::optional<Replanned> replan(const control::JobInfo& job, const control::Probe& probe) {
  const auto choice = choose_shape(probe, planned_of(job.spec(), 0), {});
  if (!choice) return Replanned{.job = job, .why = choice.error()};
  const auto shape = static_cast<std::size_t>(job.spec().rack_shape());
  const double seconds = choice->alternatives[shape].seconds;
  if (choice->taken().seconds > kWorthwhile * seconds) return std::nullopt;
  return Replanned{.job = job, .would_be = choice->taken(), .seconds = seconds};
}

}  // namespace

Result<std::vector<Replanned>> replan_all(const Session& session, const control::Probe& probe) {
  using Admin = control::Admin::Stub;
  control::ListJobsRequest request;
  request.set_tenant(session.tenant);
  control::ListJobsReply jobs;
  PHUB_RETURN_IF_ERROR(session.client.call(&Admin::ListJobs, request, jobs));
  std::vector<Replanned> changed;
  for (const control::JobInfo& listed : jobs.jobs()) {
    const bool is_live = listed.state() == control::JOB_STATE_WAITING ||
                         listed.state() == control::JOB_STATE_RUNNING;
    if (!is_live || listed.spec().racks().empty()) continue;
    control::InspectJobRequest about;  // with its keys
    about.set_job_id(listed.job_id());
    about.set_tenant(listed.tenant());
    control::InspectJobReply reply;
    const Status inspected = session.client.call(&Admin::InspectJob, about, reply);
    if (inspected.code() == Code::kNotFound) continue;  // it has ended meanwhile
    PHUB_RETURN_IF_ERROR(inspected);
    auto one = replan(reply.job(), probe);
    if (one) changed.push_back(std::move(*one));
  }
  return changed;
}

std::string replanned_text(const std::vector<Replanned>& jobs) {
  std::string text;
  for (const Replanned& one : jobs) {
    const std::string job =
        fmt::format("job \"{}\" of tenant {}", one.job.spec().name(), one.job.tenant());
    if (!one.why.ok()) {
      text += fmt::format("{} is not planned by this probe: {}\n", job, one.why.message());
      continue;
    }
    const bool is_waiting = one.job.state() == control::JOB_STATE_WAITING;
    text += fmt::format("{} has {}; by this probe it would have {} ({} instead of {}): {}\n", job,
                        enum_word(one.job.spec().rack_shape()), one.would_be.shape,
                        human_time(one.would_be.seconds), human_time(one.seconds),
                        is_waiting ? "close it and create it again with --rack-shape auto"
                                   : "it runs, and stays as it is");
  }
  return text;
}

std::string replanned_json(const std::vector<Replanned>& jobs) {
  using nlohmann::ordered_json;
  ordered_json all = ordered_json::array();
  for (const Replanned& one : jobs) {
    ordered_json entry = {{"job", one.job.spec().name()},
                          {"tenant", one.job.tenant()},
                          {"job_id", one.job.job_id()},
                          {"state", enum_word(one.job.state())},
                          {"shape", enum_word(one.job.spec().rack_shape())}};
    if (one.why.ok()) {
      entry["seconds"] = one.seconds;
      entry["would_be"] = one.would_be.shape;
      entry["would_be_seconds"] = one.would_be.seconds;
    } else {
      entry["why_not_planned"] = one.why.message();
    }
    all.push_back(std::move(entry));
  }
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace phub::phubctl
