// One process started by the bench. It dies with its owner, and with the bench.
//
// Belongs to one thread, the bench's main thread (the kernel ends a child when the thread that
// forked it ends). Its standard error goes to a log file whose end is quoted in errors.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/base/line_channel.h"
#include "common/base/status.h"

namespace phub::bench {

class ChildProcess {
 public:
  struct Options {
    std::string name;                  // for messages: "openmpi"
    std::vector<std::string> command;  // program (searched in PATH) and arguments
    std::string log_path;              // standard error, appended
    // Its standard input: nothing; or open until close_input; or, with its standard output, this
    // end of a socket.
    bool holds_input = false;
    int channel_fd = -1;
  };
  static Result<std::unique_ptr<ChildProcess>> start(const Options& options);

  ~ChildProcess();  // kills it if it still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // The next line of its standard output. Errors: kDeadlineExceeded, kUnavailable with the end of
  // its log.
  Result<std::string> read_output_line(Deadline deadline);

  // For one that ends when its input does.
  void close_input() { input_ = UniqueFd(); }

  // Sends the signal (0: none) and waits for its end; past the deadline it is killed.
  void stop(int signal, Deadline deadline);

  // Waits for its end; whether it has come.
  bool await_end(Deadline deadline);

  // "server (pid 7) was ended by signal 9", or empty while it runs.
  std::string how_it_ended();
  // The last lines of its log, indented; empty if there are none.
  std::string log_tail() const;

  pid_t pid() const { return pid_; }
  // Readable when there is output, or when it has ended.
  int output_fd() const { return output_.fd(); }

 private:
  ChildProcess(Options options, pid_t pid, UniqueFd input, UniqueFd output, UniqueFd pid_fd)
      : options_(std::move(options)),
        pid_(pid),
        input_(std::move(input)),
        output_(std::move(output)),
        pid_fd_(std::move(pid_fd)) {}
  bool reap(bool block);

  Options options_;
  pid_t pid_;
  UniqueFd input_;
  LineChannel output_;
  UniqueFd pid_fd_;
  bool ended_ = false;
  int wait_status_ = 0;
};

}  // namespace phub::bench
