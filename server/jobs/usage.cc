#include "server/jobs/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace phub::server {

Result<Tenant> JobUsage::admit_job(const std::string& tenant, std::uint32_t per_core,
                                   const Job* instead_of) const {
  if (index_.options.tenants == nullptr) return Tenant{};
  PHUB_ASSIGN_OR_RETURN(Tenant owner, index_.options.tenants->find(tenant));
  Tenant bounded = owner;
  bounded.quotas = with_defaults(owner.quotas);
  const std::uint64_t connections = std::uint64_t{per_core} * index_.cores();
  PHUB_RETURN_IF_ERROR(server::admit_job(bounded, without(tenant, instead_of), connections));
  return owner;
}

Status JobUsage::admit_streams(const JobSpec& spec, const JobRack& rack) const {
  const std::uint64_t per_core = connections_of(spec, rack);
  const std::uint64_t room = index_.options.connections_per_core;
  if (spec.tcp_streams == 1 || room == 0 || per_core <= room) return {};
  return {Code::kResourceExhausted,
          fmt::format("tcp_streams: {} of each of {} workers are {} connections to a core, which "
                      "takes {}; use fewer streams, or let an administrator raise "
                      "connections_per_core",
                      spec.tcp_streams, rack.seats, per_core, room)};
}

// Where there are several tenants, one that has no quota takes half of the jobs and of each core's
// connections at most. A tenant that is alone may take all.
Quotas JobUsage::with_defaults(Quotas quotas) const {
  const JobTableOptions& options = index_.options;
  if (options.tenants->list().size() < 2) return quotas;
  const auto half = [](std::uint64_t all) {
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(all / 2, 1, UINT32_MAX));
  };
  if (quotas.jobs == 0) quotas.jobs = half(options.live_jobs_max);
  if (quotas.connections == 0 && options.connections_per_core != 0) {
    quotas.connections = half(options.connections_per_core * index_.cores());
  }
  return quotas;
}

Usage JobUsage::without(const std::string& tenant, const Job* left_out) const {
  Usage usage;
  for (const auto& [id, job] : index_.all()) {
    if (job->tenant.name != tenant || job.get() == left_out) continue;
    // Until it is released, also of ended ones.
    usage.memory_bytes += job->bytes.pinned + job->bytes.staged_beyond + job->bytes.copied;
    if (!is_live(*job)) continue;
    ++usage.jobs;
    usage.connections += std::uint64_t{connections_of(*job->spec, job->rack)} * index_.cores();
  }
  return usage;
}

Usage JobUsage::of(const std::string& tenant) const {
  const JobIndex::Lock lock(index_);
  return without(tenant, nullptr);
}

Offered JobUsage::offered() const {
  const DataPlane& data_plane = *index_.data_plane();
  return {.windows = !data_plane.verbs_ports().empty(),
          .sealing = data_plane.encrypts_tcp(),
          .staging = data_plane.tcp_port() != 0};
}

Result<Tenant> JobUsage::owner_of(const Job& job) const {
  if (index_.options.tenants == nullptr) return job.tenant;
  return index_.options.tenants->find(job.tenant.name);
}

Result<std::shared_ptr<const void>> JobUsage::admit_plan_of(Job& job, const PlanInput& input) {
  constexpr std::string_view kWhat = "the job, counted before it is planned,";
  std::uint64_t bytes = 0;
  {
    const JobIndex::Lock lock(index_);
    bytes = bytes_at_least(layout_of(job), input, offered());
    PHUB_ASSIGN_OR_RETURN(const Tenant tenant, owner_of(job));
    PHUB_RETURN_IF_ERROR(admit_memory(tenant, without(tenant.name, &job), bytes, kWhat));
    job.bytes.pinned = bytes;
  }
  return index_.data_plane()->reserve(bytes, std::string(kWhat));
}

Result<std::uint64_t> JobUsage::admit_memory_of(Job& job) {
  const std::uint64_t bytes = bytes_pinned(layout_of(job), offered());
  PHUB_ASSIGN_OR_RETURN(const Tenant tenant, owner_of(job));
  const std::uint64_t restored = job.start.file.empty() ? 0 : bytes_copied(layout_of(job));
  PHUB_RETURN_IF_ERROR(admit_memory(tenant, without(tenant.name, &job), bytes + restored));
  job.bytes.pinned = bytes;
  job.bytes.copied += restored;
  return restored;
}

Result<AdmittedCopy> JobUsage::admit_copy_of(std::uint64_t job_id) {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  if (job == nullptr || !job->place.plan) return AdmittedCopy{};
  AdmittedCopy copy{.tenant = job->tenant,
                    .plan = job->place.plan,
                    .server_index = job->place.topology.server_index};
  if (index_.options.tenants == nullptr) return copy;
  const std::uint64_t bytes = bytes_copied(layout_of(*job));
  PHUB_ASSIGN_OR_RETURN(copy.tenant, index_.options.tenants->find(job->tenant.name));
  PHUB_RETURN_IF_ERROR(
      admit_memory(copy.tenant, without(copy.tenant.name, nullptr), bytes, "the snapshot"));
  job->bytes.copied += bytes;
  copy.counted = std::shared_ptr<const void>(job.get(), [this, job, bytes](const void* /*job*/) {
    const JobIndex::Lock ended(index_);
    job->bytes.copied -= bytes;
  });
  return copy;
}

void JobUsage::count_staged() {
  if (index_.data_plane() == nullptr) return;
  const auto staged = index_.data_plane()->staged_beyond();
  const JobIndex::Lock lock(index_);
  for (const auto& [id, job] : index_.all()) {
    const auto found = staged.find(id);
    job->bytes.staged_beyond = found == staged.end() ? 0 : found->second;
  }
}

}  // namespace phub::server
