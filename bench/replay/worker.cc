#include "bench/replay/worker.h"

#include "bench/exchange/phub_task.h"
#include "bench/replay/pacer.h"
#include "bench/simulate/trace.h"

namespace phub::bench::replay {
namespace {

class ReplayTask final : public PhubTask {
 public:
  ReplayTask(std::uint32_t index, const Work& work, ReplayPlan plan)
      : PhubTask(index, work, plan.keys()), plan_(std::move(plan)) {
    KeyId key = 0;
    for (const ReplayLayer& layer : plan_.layers) {
      first_keys_.push_back(key);
      key += static_cast<KeyId>(layer.keys.size());
    }
    first_keys_.push_back(key);
  }

  // Nothing is computed before a run, so its pace begins here.
  Status fill(std::uint32_t round) override {
    PHUB_RETURN_IF_ERROR(PhubTask::fill(round));
    pacer_.rest();
    return {};
  }

  // From the beginning of backward to the end of the next forward.
  Status iterate() override {
    const bool pushes_late = plan_.policy == Policy::kBsp;
    for (std::size_t layer = plan_.layers.size(); layer-- > 0;) {
      pacer_.compute(plan_.layers[layer].backward);
      if (!pushes_late) PHUB_RETURN_IF_ERROR(push(layer, layer + 1));
    }
    if (pushes_late) PHUB_RETURN_IF_ERROR(push(0, plan_.layers.size()));
    const bool waits_for_all = plan_.policy != Policy::kPriority;
    if (waits_for_all) PHUB_RETURN_IF_ERROR(wait(0, plan_.layers.size()));
    for (std::size_t layer = 0; layer < plan_.layers.size(); ++layer) {
      if (!waits_for_all) PHUB_RETURN_IF_ERROR(wait(layer, layer + 1));
      pacer_.compute(plan_.layers[layer].forward);
    }
    pacer_.compute(plan_.loss);
    return {};
  }

 private:
  // The keys of layers first to last, without the last; the last key first.
  Status push(std::size_t first, std::size_t last) {
    for (KeyId key = first_keys_[last]; key-- > first_keys_[first];) {
      PHUB_RETURN_IF_ERROR(client().push(key));
    }
    return {};
  }

  Status wait(std::size_t first, std::size_t last) {
    const std::int64_t since = pacer_.waits();
    for (KeyId key = first_keys_[first]; key < first_keys_[last]; ++key) {
      PHUB_RETURN_IF_ERROR(client().wait(key));
    }
    pacer_.waited(since);
    return {};
  }

  ReplayPlan plan_;
  std::vector<KeyId> first_keys_;  // of each layer; the number of keys behind them
  Pacer pacer_{monotonic_clock()};
};

Result<ReplayPlan> read_plan(const std::string& path) {
  PHUB_ASSIGN_OR_RETURN(const std::string text, simulate::read_whole(path));
  return nlohmann::json::parse(text).get<ReplayPlan>();
}

}  // namespace

std::vector<std::string> worker_words(const ServedReplay& replay) {
  return {"replay-worker", nlohmann::json(replay).dump(), "--plan"};
}

std::string text_of(const ReplayPlan& plan) { return nlohmann::json(plan).dump(); }

Status run_replay_worker(const WorkerHello& hello, const ServedReplay& replay,
                         const std::string& plan_file) {
  auto plan = read_plan(plan_file);
  if (!plan) return tell(hello, plan.error());
  ReplayTask task(hello.index, replay.served.work, std::move(*plan));
  const Status connected = task.connect(replay.served.addresses, replay.job);
  if (!connected.ok()) return tell(hello, connected);
  return serve(hello, task);
}

}  // namespace phub::bench::replay
