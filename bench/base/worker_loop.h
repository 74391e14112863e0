// The child's side of the bench: a process that exchanges gradients when it is told to.
//
// Runs on the process's main thread. Between commands it blocks in a read and uses no CPU.
//   "run W K"   fills the gradients, makes W exchanges, then K more; replies
//               "done t0 t1 ... tK": CLOCK_MONOTONIC nanoseconds at the end of the W-th exchange
//               and of each of the K
//   "verify R"  exchanges pattern R and checks every element; replies "verified CHECKSUM" or
//               "wrong TEXT"
//   "quit"      ends the loop
// Any failure is answered by "error TEXT".
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bench/base/line_channel.h"
#include "common/base/status.h"

namespace phub::bench {

class Task {
 public:
  virtual ~Task() = default;
  // Fills the gradients with the pattern of `round`; not timed.
  virtual Status fill(std::uint32_t round) = 0;
  // One exchange of all keys.
  virtual Status iterate() = 0;
  // Exchanges the pattern of `round` and checks all elements of the result; its checksum.
  // Error: kDataLoss names the first wrong element.
  virtual Result<std::uint64_t> verify(std::uint32_t round) = 0;
};

struct WorkerHello {
  std::string control;      // abstract name of the bench's control socket
  std::uint32_t index = 0;  // which worker of its group this process is
  std::string note;         // what people should know about the system, one line
};

// Asks the kernel to end this process when its parent dies. Called first in every child's main.
void end_with_parent();

// Says hello and serves commands until "quit" or until the bench is gone.
Status serve(const WorkerHello& hello, Task& task);

// The same of commands that are no task's: each line's reply, or why there is none.
using Replies = std::function<Result<std::string>(const std::string& line)>;
Status serve(const WorkerHello& hello, const Replies& replies);

// Tells the bench, if it can be reached, why this process cannot start; the same error.
Status tell(const WorkerHello& hello, Status error);

// Of a process of its own: says the error, if there is one; the exit code.
int exit_code_of(const Status& ended);

}  // namespace phub::bench
