// The jobs of a tenancy measurement: worker processes that exchange for ever, and how many
// exchanges the server counts.
//
// Main thread of the bench.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/processes/child_process.h"
#include "bench/processes/phub_servers.h"
#include "bench/processes/work.h"
#include "common/base/dtype.h"
#include "common/base/rule.h"
#include "common/base/status.h"

namespace phub::bench {

// One job of one tenant.
struct Load {
  std::string tenant = "default";
  std::string job;
  std::uint32_t workers = 1;
  std::uint64_t elements = 0;
  std::string keys = "64";  // see keys.h
  RuleKind rule = RuleKind::kNesterov;
  DataType dtype = DataType::kFloat32;  // on the wire
  std::string transport = "shm";
  // 0: pushes a key again as soon as its replies are there. Else a step: sleeps so long, then
  // exchanges all keys.
  std::uint32_t compute_us = 0;
  // Of its tenant. The CPUs that the workers share are scheduled by it too: a job's workers would
  // have hosts of their own, and an equal share of one CPU is not what is measured.
  std::uint32_t weight = 1;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Load, tenant, job, workers, elements, keys, rule, dtype,
                                   transport, compute_us, weight)

// What jobs got, by their order, while it was measured.
struct Totals {
  std::vector<double> exchanges;
  std::vector<double> core_seconds;  // of work for the job
  double workers_busy = 0;           // seconds in which the workers' CPUs worked
  double seconds = 0;
};

// CPUs of the server, the first; workers are on the others (on all, if there are no others).
inline constexpr std::size_t kServerCores = 1;

class TenantServer {
 public:
  static Result<std::unique_ptr<TenantServer>> start(Places& places);

  Status create_tenant(const std::string& name, std::uint32_t weight);

  // Starts the workers of a job and waits until it runs.
  Status start(const Load& load);
  // Starts a process that sends garbage to the data port until the server ends, once no more jobs
  // are started.
  Status start_garbage();
  // Lets the workers of these jobs go on (by the order of the starts; the garbage comes after the
  // last), holds all others, and waits until what those had pushed before is done.
  Status run_only(const std::vector<std::size_t>& jobs);

  // For so long, of each job, in the order in which they were started; added to `totals`.
  Status measure(double seconds, Totals& totals);
  // Times that the server refused something, of any cause.
  Result<std::uint64_t> drops() const;

 private:
  explicit TenantServer(Places& places) : places_(places) {}
  // Of the job that is started next.
  Status start_process(const std::string& name, std::vector<std::string> words);
  Result<Totals> progress() const;
  std::string why_it_ended() const;

  Places& places_;
  PhubServer server_;
  std::vector<Load> loads_;
  std::vector<std::unique_ptr<ChildProcess>> workers_;
  std::vector<std::size_t> job_of_;  // by worker; the garbage's is one past the last
};

}  // namespace phub::bench
