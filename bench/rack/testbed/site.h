// Where the hosts of a scenario are: what to run here so that a program runs on one of them.
//
// Belongs to the bench's main thread.
#pragma once

#include <string>
#include <vector>

#include "bench/rack/testbed/fabric.h"
#include "common/base/status.h"

namespace phub::bench {

struct HostProgram {
  std::string program;             // one of ours: "phub-server"
  std::vector<std::string> words;  // its command line
  std::string config = {};  // text of a file whose path comes after the words; empty: there is none
  double late_s = 0;        // seconds that it starts later
};

class RackSite {
 public:
  virtual ~RackSite() = default;

  // The program on the host ends when the command does.
  virtual Result<std::vector<std::string>> command(const RackHost& host,
                                                   const HostProgram& program) const = 0;

  // Of a host elsewhere programs end with their standard input, and are talked to by it.
  virtual bool is_elsewhere() const { return false; }
};

}  // namespace phub::bench
