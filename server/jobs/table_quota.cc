// What jobs take: quotas of their tenants, memory, and the load of the cores.
#include <algorithm>
#include <numeric>

#include "server/job/footprint.h"
#include "server/jobs/core_load.h"
#include "server/jobs/table.h"

namespace phub::server {

Result<Tenant> JobTable::admit_to_tenant(const std::string& tenant, std::uint32_t workers) const {
  if (options_.tenants == nullptr) return Tenant{};
  PHUB_ASSIGN_OR_RETURN(Tenant owner, options_.tenants->find(tenant));
  const std::uint64_t cores = data_plane_ == nullptr ? 0 : data_plane_->cores();
  Tenant bounded = owner;
  bounded.quotas = with_defaults(owner.quotas);
  PHUB_RETURN_IF_ERROR(admit_job(bounded, usage_without(tenant, nullptr), workers * cores));
  return owner;
}

// Where there are several tenants, one that has no quota takes half of the jobs and of each core's
// connections at most. A tenant that is alone may take all.
Quotas JobTable::with_defaults(Quotas quotas) const {
  if (options_.tenants->list().size() < 2) return quotas;
  const std::uint64_t cores = data_plane_ == nullptr ? 0 : data_plane_->cores();
  const auto half = [](std::uint64_t all) {
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(all / 2, 1, UINT32_MAX));
  };
  if (quotas.jobs == 0) quotas.jobs = half(options_.live_jobs_max);
  if (quotas.connections == 0 && options_.connections_per_core != 0) {
    quotas.connections = half(options_.connections_per_core * cores);
  }
  return quotas;
}

Usage JobTable::usage_without(const std::string& tenant, const Job* left_out) const {
  Usage usage;
  const std::uint64_t cores = data_plane_ == nullptr ? 0 : data_plane_->cores();
  for (const auto& [id, job] : jobs_) {
    if (job->tenant.name != tenant || job.get() == left_out) continue;
    // Until it is released, also of ended ones.
    usage.memory_bytes += job->memory_bytes + job->staged_beyond_bytes + job->copy_bytes;
    if (!is_live(*job)) continue;
    ++usage.jobs;
    usage.connections += job->spec->workers * cores;
  }
  return usage;
}

Usage JobTable::usage_of(const std::string& tenant) const {
  const Lock lock(mutex_);
  return usage_without(tenant, nullptr);
}

Offered JobTable::offered() const {
  return {.windows = !data_plane_->verbs_ports().empty(),
          .sealing = data_plane_->encrypts_tcp(),
          .staging = data_plane_->tcp_port() != 0};
}

Result<Tenant> JobTable::owner_of(const Job& job) const {
  if (options_.tenants == nullptr) return job.tenant;
  return options_.tenants->find(job.tenant.name);
}

// A plan is as large as a peer says, so what would be refused is refused before there is one. What
// is told counts as the job's from now on, and the data plane's while the plan is made.
Result<std::shared_ptr<const void>> JobTable::admit_plan_of(Job& job, const PlanInput& input) {
  constexpr std::string_view kWhat = "the job, counted before it is planned,";
  std::uint64_t bytes = 0;
  {
    const Lock lock(mutex_);
    bytes = bytes_at_least(shape_of(job), input, offered());
    PHUB_ASSIGN_OR_RETURN(const Tenant tenant, owner_of(job));
    PHUB_RETURN_IF_ERROR(admit_memory(tenant, usage_without(tenant.name, &job), bytes, kWhat));
    job.memory_bytes = bytes;
  }
  return data_plane_->reserve(bytes, std::string(kWhat));
}

// REQUIRES: job.plan. Its bytes count from now on, also for jobs that are made at the same time.
Result<std::uint64_t> JobTable::admit_memory_of(Job& job) {
  const std::uint64_t bytes = bytes_pinned(shape_of(job), offered());
  PHUB_ASSIGN_OR_RETURN(const Tenant tenant, owner_of(job));
  const std::uint64_t restored = job.snapshot.empty() ? 0 : bytes_copied(shape_of(job));
  PHUB_RETURN_IF_ERROR(admit_memory(tenant, usage_without(tenant.name, &job), bytes + restored));
  job.memory_bytes = bytes;
  job.copy_bytes += restored;
  return restored;
}

Status JobTable::admit_restored(const JobSpec& spec, const std::string& tenant,
                                std::uint64_t bytes) const {
  const Lock lock(mutex_);
  PHUB_RETURN_IF_ERROR(check_free({tenant, spec.name}));
  PHUB_RETURN_IF_ERROR(admit_live_job());
  PHUB_ASSIGN_OR_RETURN(const Tenant owner, admit_to_tenant(tenant, spec.workers));
  return admit_memory(owner, usage_without(tenant, nullptr), bytes, "the restored job");
}

Result<AdmittedCopy> JobTable::admit_copy_of(std::uint64_t job_id) {
  const Lock lock(mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end() || !found->second->plan) return AdmittedCopy{};
  const std::shared_ptr<Job> job = found->second;
  AdmittedCopy copy{
      .tenant = job->tenant, .plan = job->plan, .server_index = job->topology.server_index};
  if (options_.tenants == nullptr) return copy;
  const std::uint64_t bytes = bytes_copied(shape_of(*job));
  PHUB_ASSIGN_OR_RETURN(copy.tenant, options_.tenants->find(job->tenant.name));
  PHUB_RETURN_IF_ERROR(
      admit_memory(copy.tenant, usage_without(copy.tenant.name, nullptr), bytes, "the snapshot"));
  job->copy_bytes += bytes;
  copy.counted = std::shared_ptr<const void>(job.get(), [this, job, bytes](const void* /*job*/) {
    const Lock ended(mutex_);
    job->copy_bytes -= bytes;
  });
  return copy;
}

std::vector<std::uint64_t> JobTable::core_load_without(const Job& job) const {
  CoreLoad load(data_plane_ == nullptr ? 0 : data_plane_->cores(), 0);
  for (const auto& [name, id] : live_by_name_) {
    const Job& other = *jobs_.at(id);
    if (&other == &job || other.members.empty()) continue;
    for (std::size_t core = 0; core < other.placed_bytes.size(); ++core) {
      load[core] += other.placed_bytes[core];
    }
  }
  return load;
}

// Jobs that have joined but are not planned yet count with a guess: otherwise jobs that start at
// the same moment would all choose the same core.
void JobTable::fix_core_load(Job& job) const {
  if (job.memory != Memory::kNone) return;
  job.core_load_bytes = core_load_without(job);
  if (job.snapshot_load_bytes.size() == job.core_load_bytes.size()) {
    job.core_load_bytes = job.snapshot_load_bytes;
  }
  std::uint64_t elements = 0;
  for (const JobKey& key : job.spec->keys) elements += key.elements;
  job.placed_bytes = expected_load(job.core_load_bytes, elements * size_of(job.spec->wire_type),
                                   job.spec->chunk_bytes);
}

std::vector<std::uint64_t> JobTable::core_load_bytes(std::uint64_t job_id) const {
  const Lock lock(mutex_);
  const auto found = jobs_.find(job_id);
  return found == jobs_.end() ? CoreLoad() : found->second->core_load_bytes;
}

}  // namespace phub::server
