// Puts a job on the data plane when its workers agree on the plan, and takes it off when it has
// ended.
//
// A job's memory goes from kNone through kCreating to kHeld once, by the first member that is
// ready, and from there to kReleased. Back to kNone only when it could not be made.
//
// Owned by the JobTable; any control thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/jobs/job_index.h"
#include "server/jobs/usage.h"

namespace phub::server {

class Placement {
 public:
  Placement(JobIndex& index, JobUsage& usage) : index_(index), usage_(usage) {}

  // The first worker's call makes the job on the data plane, which may take long; later ones must
  // agree with it. Those that come meanwhile wait without a thread, and are replied to by the first
  // one's. Another rack says its own topology, and as `plan_hash` the hash of what all racks have
  // alike. Error: kUnavailable, none of this rack's workers is ready yet.
  void ready(const Identity& identity, const Topology& topology, std::uint64_t plan_hash,
             Reply reply);

  // REQUIRES the mutex, and gives it up for a while.
  void release_ended(JobIndex::Lock& lock);

 private:
  struct ReadyCall {
    Identity identity;
    Topology topology;
    std::uint64_t plan_hash = 0;
    Reply reply;
    std::shared_ptr<Member> member = nullptr;  // while it waits
  };

  // All of these REQUIRE the mutex, which those with a Lock give up for a while.
  void wait_for_memory(const JobIndex::Caller& caller, ReadyCall call);
  Status make_ready(JobIndex::Lock& lock, const JobIndex::Caller& caller, const ReadyCall& call);
  Status make_on_data_plane(JobIndex::Lock& lock, Job& job, const Topology& topology,
                            std::uint64_t plan_hash);
  Status make_rack_ready(JobIndex::Lock& lock, const JobIndex::Caller& caller,
                         const ReadyCall& call);
  Status release_before_creating(JobIndex::Lock& lock);
  Status open_links(Job& job);
  // These REQUIRE that it is not held.
  Result<Plan> plan_of(Job& job, const JobSpec& spec, const Topology& topology);
  Result<StartPoint> create_job(JobLayout layout, StartPoint start);

  JobIndex& index_;
  JobUsage& usage_;
  std::map<std::uint64_t, std::vector<ReadyCall>> waiting_;  // for memory that is being made
};

}  // namespace phub::server
