// Who pays for what: the jobs, connections and memory that a tenant's jobs take, against its
// quotas.
//
// What is admitted counts at once, so that jobs which are made at one moment do not share one
// quota. Owned by the JobTable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/job/footprint.h"
#include "server/jobs/job_index.h"

namespace phub::server {

// What a snapshot of a job is made of, and who pays for it.
struct AdmittedCopy {
  Tenant tenant;                          // with the quotas that hold now
  std::shared_ptr<const Plan> plan = {};  // null: the job is not planned
  std::uint32_t server_index = 0;
  std::shared_ptr<const void> counted = {};  // its memory, until this is destroyed
};

class JobUsage {
 public:
  explicit JobUsage(JobIndex& index) : index_(index) {}

  // ---- Any control thread -------------------------------------------------------------------

  Usage of(const std::string& tenant) const;
  // Counts what a snapshot of the job takes while it is made, as its tenant's memory, until the
  // result is destroyed; that is before this. Errors: kResourceExhausted with the figures.
  Result<AdmittedCopy> admit_copy_of(std::uint64_t job_id);
  // A plan is as large as a peer says, so what would be refused is refused before there is one.
  // What is told counts as the job's from now on, and as the data plane's for as long as the result
  // lives, which is while the plan is made.
  Result<std::shared_ptr<const void>> admit_plan_of(Job& job, const PlanInput& input);
  // What the data plane has staged for each job, as it is now.
  void count_staged();

  // ---- All below REQUIRE the mutex ----------------------------------------------------------

  // Whether the cores have as many connections as the job's streams are, all of its workers coming
  // by tcp. Errors: kResourceExhausted with the figures.
  Status admit_streams(const JobSpec& spec, const JobRack& rack) const;
  // Whether a tenant may have one more job of so many workers. Returns it as it is now.
  // `instead_of`: a job of the tenant's that it takes the place of; null: of none.
  Result<Tenant> admit_job(const std::string& tenant, std::uint32_t workers,
                           const Job* instead_of = nullptr) const;
  // Returns what of it counts only until the job is made: the snapshot that it starts from.
  // REQUIRES: job.place.plan.
  Result<std::uint64_t> admit_memory_of(Job& job);
  Usage without(const std::string& tenant, const Job* left_out) const;

 private:
  Quotas with_defaults(Quotas quotas) const;
  Offered offered() const;
  Result<Tenant> owner_of(const Job& job) const;  // as it is now

  JobIndex& index_;
};

}  // namespace phub::server
