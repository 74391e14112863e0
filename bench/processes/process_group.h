// The processes of one system under test, driven in step over their control channels.
//
// Belongs to the bench's main thread. All processes die with the object. Idle processes block in a
// read of their channel.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bench/base/line_channel.h"
#include "bench/processes/child_process.h"
#include "common/base/status.h"

namespace phub::bench {

class ProcessGroup {
 public:
  struct Options {
    std::string name;           // of the system, for messages
    std::uint32_t workers = 1;  // processes that will say hello
    // One command for each worker ("--index I" is appended), or a single launcher that starts all
    // of them. "--control NAME" is appended to each.
    std::vector<std::vector<std::string>> commands;
    std::string log_path;
    // Where workers say hello: a file that is not there yet, for those in network namespaces of
    // their own; empty: an abstract name.
    std::string control_path = {};
    // Instead they talk by their standard input and output. One command for each worker.
    bool by_streams = false;
    std::chrono::seconds start_timeout{60};  // until all have said hello
    int interrupt_fd = -1;                   // readable when the user wants to stop
    // A worker that cannot start is no error of all: what it says is its first reply.
    bool may_fail = false;
  };
  // Returns when every worker has said hello. Errors name the worker that is missing or failed.
  static Result<std::unique_ptr<ProcessGroup>> start(const Options& options);

  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  // Sends the line to every worker and collects one reply from each, in order of index.
  // Errors: kDeadlineExceeded and kUnavailable name the worker, kAborted carries its message.
  Result<std::vector<std::string>> ask(const std::string& line, std::chrono::milliseconds timeout);

  // The two halves of it, for who takes the replies as they come and awaits each once.
  struct Reply {
    std::uint32_t worker = 0;
    std::string text;  // empty: it closed its channel
    std::chrono::steady_clock::time_point when;
    bool is_lost() const { return text.empty(); }
  };
  void tell(const std::string& line);
  // The next reply of those that are `awaited`. Errors: kDeadlineExceeded, kAborted: interrupted.
  Result<Reply> next_reply(const std::vector<bool>& awaited, Deadline deadline);

  pid_t pid(std::uint32_t worker) const { return pids_[worker]; }

  // Asks the workers to end and waits for them; whoever is late is killed.
  void stop();

  const std::string& note() const { return note_; }

 private:
  explicit ProcessGroup(Options options) : options_(std::move(options)) {}
  Result<std::unique_ptr<ChildProcess>> start_child(std::size_t index, const std::string& control,
                                                    int channel_fd);
  Status start_by_streams();
  Status accept_workers(int listener);
  Status greet(LineChannel channel, Deadline deadline);
  // Which of them can be read, once one can; a negative one never can.
  Result<std::vector<bool>> wait_readable(std::vector<int> fds, Deadline deadline) const;
  std::string describe(std::uint32_t index) const;
  Status lost(std::uint32_t index) const;
  // "; NAME (pid P) was ended by signal S" and the end of its log, if any process has ended.
  std::string obituary() const;

  Options options_;
  std::vector<LineChannel> channels_;
  std::vector<Reply> early_;  // of those that could not start
  std::vector<int> pids_;     // 0: has not said hello
  std::string note_;
  std::vector<std::unique_ptr<ChildProcess>> children_;
};

}  // namespace phub::bench
