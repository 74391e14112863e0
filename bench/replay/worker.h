// One worker of a replay: sleeps as long as a layer computes, pushes its keys when its backward
// ends, and waits for them before its next forward. The hidden subcommand "replay-worker". Main
// thread of its process.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/base/worker_loop.h"
#include "bench/processes/work.h"
#include "bench/replay/plan.h"

namespace phub::bench::replay {

// What the process is told.
struct ServedReplay {
  ServedWork served;
  std::string job;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ServedReplay, served, job)

// The words behind phub-bench, but for the last: the path of a file with text_of(plan), for which a
// command line has no room.
std::vector<std::string> worker_words(const ServedReplay& replay);
std::string text_of(const ReplayPlan& plan);

Status run_replay_worker(const WorkerHello& hello, const ServedReplay& replay,
                         const std::string& plan_file);

}  // namespace phub::bench::replay
