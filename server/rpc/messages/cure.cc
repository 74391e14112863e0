#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/rule.h"
#include "server/rpc/messages/messages.h"

namespace phub::server {
namespace {

constexpr std::size_t kNamedMax = 3;

// "worker 1 (host a, pid 5)".
std::string whose(const MemberView& member) {
  return member.rack.empty() ? fmt::format("worker {} (host {}, pid {})", member.index, member.host,
                                           member.process_id)
                             : fmt::format("rack {} (host {}, pid {})", member.rack, member.host,
                                           member.process_id);
}

// Whom the job lost, or whose memory or network changes bits. Empty: nobody.
std::string look_at(const JobView& view) {
  std::vector<std::string> lost;
  for (const MemberView& member : view.members) {
    const std::size_t seat = member.worker;
    const std::vector<WorkerCorruption>& corruption = view.counters.corruption;
    if (member.rack.empty() && seat < corruption.size() && corruption[seat].pushes > 0) {
      return fmt::format("test memory and network of the host of {}, and of this one; ",
                         whose(member));
    }
    if (member.was_lost) lost.push_back(whose(member));
  }
  if (lost.empty()) return "";
  const std::size_t more = lost.size() - std::min(lost.size(), kNamedMax);
  lost.resize(lost.size() - more);
  return fmt::format("look in the log of {}{} for why it went; ", fmt::join(lost, ", "),
                     more == 0 ? "" : fmt::format(" and of {} more", more));
}

// The first round carries the initial parameters.
bool has_trained(const JobCounters& counters) {
  return counters.rounds_before > 0 || counters.chunks_completed >= 2 * counters.chunks;
}

std::string go_on(const JobView& view) {
  if (view.counters.chunks == 0 || !has_trained(view.counters)) {
    return "it had trained nothing yet, so there is nothing to resume: start its workers again";
  }
  const RuleKind rule = view.spec->rule;
  if (!has_parameters(rule)) {
    return "its workers have the parameters: start them again from their last checkpoint "
           "(phub-worker: --resume CHECKPOINT)";
  }
  if (state_arrays(rule) == 0) {
    return "it can be resumed: start its workers again from their checkpoint (phub-worker: "
           "--resume CHECKPOINT, after steps of its own with --restart-momentum), or restore a "
           "snapshot (`phubctl restore FILE`) and start them as before";
  }
  return "it can be resumed with the optimizer's state: restore a snapshot (`phubctl restore "
         "FILE`) and start its workers again, phub-worker with --resume of the checkpoint that "
         "names the snapshot; without a snapshot that state begins anew (phub-worker: --resume "
         "CHECKPOINT --restart-momentum)";
}

}  // namespace

std::string cure_of(const JobView& view) {
  return view.state == JobState::kFailed ? look_at(view) + go_on(view) : "";
}

}  // namespace phub::server
