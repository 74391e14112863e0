// The phub-server processes of one system under test, and what memory they hold.
//
// Belongs to the bench's main thread; the servers end with the object.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/child_process.h"
#include "bench/work.h"
#include "common/base/status.h"

namespace phub::bench {

// Sums over the servers, in bytes.
struct ServerMemory {
  std::uint64_t anonymous = 0;    // RssAnon of the processes
  std::uint64_t shared = 0;       // RssShmem: includes the workers' gradients mapped by shm
  std::uint64_t idle = 0;         // both, before the job
  std::uint64_t job = 0;          // what the servers report for the job: parameters, state, staging
  std::uint64_t job_staging = 0;  // of which staging
};

class PhubServers {
 public:
  static Result<std::unique_ptr<PhubServers>> start(const Work& work, Places& places);
  ~PhubServers();
  PhubServers(const PhubServers&) = delete;
  PhubServers& operator=(const PhubServers&) = delete;

  // Control addresses, comma-separated.
  std::string addresses() const;
  Result<ServerMemory> memory(const std::string& job) const;

 private:
  PhubServers() = default;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
  std::vector<std::string> addresses_;
  std::uint64_t idle_bytes_ = 0;
};

}  // namespace phub::bench
