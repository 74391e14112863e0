// Real machines, reached by ssh: a program on a host is a `ssh` process here, and ends with it.
//
// Belongs to the bench's main thread. A program that has a configuration is started by a few lines
// of shell there: they put it into a temporary folder and end the program when the connection
// does. One without (the bench's own worker) is started as it is, and ends with its input.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/processes/work.h"
#include "bench/rack/testbed/site.h"
#include "proto/rack.pb.h"

namespace phub::bench {

class SshSite final : public RackSite {
 public:
  // Error: kFailedPrecondition, there is no ssh here.
  static Result<std::unique_ptr<SshSite>> create(const RackSsh& settings, const Places& places);

  Result<std::vector<std::string>> command(const RackHost& host,
                                           const HostProgram& program) const override;
  bool is_elsewhere() const override { return true; }

 private:
  SshSite(std::string ssh, std::string folder, std::vector<std::string> options)
      : ssh_(std::move(ssh)), folder_(std::move(folder)), options_(std::move(options)) {}

  std::string ssh_;
  std::string folder_;
  std::vector<std::string> options_;
};

// The word as a shell takes it for that word.
std::string shell_word(std::string_view word);

}  // namespace phub::bench
