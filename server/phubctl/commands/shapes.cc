// job shapes, job plan --explain, and the shape of job create --rack-shape auto.
#include <fmt/format.h>

#include <string>

#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"
#include "server/phubctl/commands/plans.h"

namespace phub::phubctl {
namespace {

constexpr double kBytesOfGbit = 1e9 / 8;

NicRates rates_of(const PlanOptions& options) {
  return {.worker = options.worker_gbit * kBytesOfGbit,
          .server = options.server_gbit * kBytesOfGbit};
}

// As far as the spec says it (common/job/check.cc).
bool may_compress(const control::JobSpec& spec) {
  const control::UpdateRule rule = spec.rule();
  return spec.rack_wire_type() == control::WIRE_TYPE_FP32 &&
         spec.loss_scaling() == control::LOSS_SCALING_NONE && rule != control::RULE_LARS &&
         rule != control::RULE_LAMB && rule != control::RULE_ELASTIC;
}

std::string headline(const PlannedJob& job, const control::Probe& probe) {
  std::string racks;
  for (const RackSpec& rack : job.racks) {
    racks += fmt::format("{}{}:{}", racks.empty() ? "" : ", ", rack.name, rack.workers);
  }
  return fmt::format("{} over racks {}; by the probe of {}\n",
                     human_bytes(static_cast<std::uint64_t>(job.bytes)), racks,
                     time_text(probe.unix_seconds()));
}

Status show_choice(const Session& session, const PlannedJob& job, const PlanOptions& options,
                   const std::string& has) {
  PHUB_ASSIGN_OR_RETURN(const control::Probe probe, last_probe(session));
  PHUB_ASSIGN_OR_RETURN(const Choice choice, choose_shape(probe, job, rates_of(options)));
  print(session.as_json ? choice_json(choice, job, has, probe.unix_seconds())
                        : headline(job, probe) + choice_text(choice, job, has));
  return {};
}

}  // namespace

PlannedJob planned_of(const control::JobSpec& spec, double bytes) {
  PlannedJob job;
  job.is_voted = spec.loss_scaling() == control::LOSS_SCALING_VOTED;
  for (const control::JobRack& rack : spec.racks()) {
    job.racks.push_back({.name = rack.name(), .workers = rack.workers()});
  }
  if (spec.wire_type() != control::WIRE_TYPE_FP32) job.bytes_an_element = 2;
  if (spec.rack_wire_type() != control::WIRE_TYPE_FP32) job.sum_bytes_an_element = 2;
  job.may_compress = may_compress(spec);
  if (spec.has_rack_compress()) {
    job.rack_density = spec.rack_compress().density();
    if (spec.rack_compress().has_dense_below()) {
      job.rack_dense_below = spec.rack_compress().dense_below();
    }
  }
  if (spec.chunk_bytes() > 0) job.chunk_bytes = spec.chunk_bytes();
  for (const control::Key& key : spec.keys()) {
    job.key_bytes.push_back(static_cast<double>(key.elements()) * job.bytes_an_element);
    job.bytes += job.key_bytes.back();
  }
  if (spec.rack_shape() == control::RACK_SHAPE_HYBRID) {
    job.hybrid_bytes = static_cast<double>(spec.rack_hybrid_bytes());
  }
  if (bytes > 0) job.bytes = bytes;
  return job;
}

Result<control::Probe> last_probe(const Session& session) {
  control::LastReply reply;
  PHUB_RETURN_IF_ERROR(
      session.client.call(&control::Probes::Stub::Last, control::LastRequest(), reply));
  return reply.probe();
}

Status print_shapes(const Session& session, const JobOptions& options) {
  control::JobSpec spec;
  PHUB_RETURN_IF_ERROR(spec_from(options, spec));
  return show_choice(session, planned_of(spec, options.plan.bytes), options.plan, "");
}

Status explain_plan(const Session& session, const std::string& name, const PlanOptions& options) {
  control::InspectJobReply reply;
  PHUB_RETURN_IF_ERROR(session.with_other_tenants(
      name, session.client.call(&control::Admin::Stub::InspectJob,
                                session.about<control::InspectJobRequest>(name), reply)));
  const control::JobSpec& spec = reply.job().spec();
  if (spec.racks().empty()) {
    return {Code::kFailedPrecondition,
            fmt::format("job \"{}\" has one rack, or lists none (flat); what it would take over "
                        "racks says `phubctl job shapes --racks a:4,b:4 --bytes N`",
                        name)};
  }
  return show_choice(session, planned_of(spec, options.bytes), options,
                     enum_word(spec.rack_shape()));
}

Status choose_rack_shape(const Session& session, const PlanOptions& options,
                         control::JobSpec& spec) {
  const PlannedJob job = planned_of(spec, options.bytes);
  PHUB_ASSIGN_OR_RETURN(const control::Probe probe, last_probe(session));
  const auto choice = choose_shape(probe, job, rates_of(options));
  if (!choice) return choice.error().with_context("--rack-shape auto");
  spec.set_rack_shape(static_cast<control::RackShape>(choice->shape));
  if (choice->shape == RackShape::kHybrid) {
    spec.set_rack_hybrid_bytes(static_cast<std::uint64_t>(choice->groups.threshold));
  }
  // With --json, `job plan --explain` tells the same.
  if (!session.as_json) print(headline(job, probe) + choice_text(*choice, job, ""));
  return {};
}

}  // namespace phub::phubctl
