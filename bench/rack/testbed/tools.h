// Running `ip`, `tc` and `nsenter`, and what this machine lacks for them.
//
// Belongs to the bench's main thread. Each call runs one process and waits for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/processes/work.h"
#include "bench/rack/testbed/setup.h"
#include "common/base/status.h"

namespace phub::bench {

// Of a program in PATH, or where Debian has what administrators use; empty: it is nowhere.
std::string program_path(const std::string& name);

class RackTools {
 public:
  // Error: kFailedPrecondition names each right and program that is missing, with the cure. What
  // the kernel lacks is known when a batch is run.
  static Result<RackTools> find(Places& places);

  // Error: kFailedPrecondition with the line that failed, what was said of it, and the cure.
  Status run(const Batch& batch) const;

  // What `ip WORDS...`, `tc WORDS...`, or a command inside a namespace prints. Error: kUnavailable.
  Result<std::string> ip(const std::vector<std::string>& words) const;
  Result<std::string> tc(const std::vector<std::string>& words) const;
  Result<std::string> inside(const std::string& space, const std::vector<std::string>& words) const;

  // The words in front of a command that is to run in this namespace. nsenter becomes the command,
  // so its process is the command's, and ends with the bench as every child does.
  std::vector<std::string> within(const std::string& space) const;

 private:
  RackTools(Places& places, std::string ip, std::string tc, std::string nsenter)
      : places_(&places), ip_(std::move(ip)), tc_(std::move(tc)), nsenter_(std::move(nsenter)) {}
  Result<std::string> output_of(std::vector<std::string> command,
                                const std::vector<std::string>& words) const;

  Places* places_;
  std::string ip_;
  std::string tc_;
  std::string nsenter_;
};

// What iproute2 said when a batch failed, as a sentence with the line and the cure.
// REQUIRES: the batch has lines.
std::string explain(const Batch& batch, std::string_view said);

}  // namespace phub::bench
