#include "tests/cuda/support/host_runtime.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>

#include "kernels/cuda/training_reference.h"

namespace phub::testing {

using nn::cuda::Block;
using nn::cuda::BlockPointer;
using nn::cuda::CapturedGraph;
using nn::cuda::CapturedGraphPointer;
using nn::cuda::Event;
using nn::cuda::EventPointer;

struct HostRuntime::HostEvent : Event {
  Front front;
  std::uint64_t graph = 0;  // in which it was recorded last; 0: in none
};

struct HostRuntime::HostGraph : CapturedGraph {
  std::vector<Node> nodes;
  Front front;  // of kCompute, at the end
};

namespace {

// Memory that copies may touch, while it lives. `Owner`: whose it is.
template <typename Owner>
class Range : public Block {
 public:
  Range(Owner& owner, std::byte* own, std::span<std::byte> memory) : owner_(owner), own_(own) {
    address = memory.data();
    bytes = memory.size();
    owner_.adopt(address, bytes);
  }
  ~Range() override { owner_.forget(address, bytes); }

 private:
  Owner& owner_;
  std::unique_ptr<std::byte[]> own_;
};

Status misuse(const std::string& what) { return {Code::kInternal, "the host's runtime: " + what}; }

}  // namespace

HostMachine::NodeId HostMachine::add(Node node) {
  pending_[next_] = std::move(node);
  return next_++;
}

bool HostMachine::is_done(const std::vector<NodeId>& nodes) const {
  return std::none_of(nodes.begin(), nodes.end(),
                      [&](NodeId node) { return pending_.count(node) > 0; });
}

// What is queued later never holds up what was queued before, so there is always something that can
// be done, but for what is stuck.
bool HostMachine::do_one() {
  std::vector<NodeId> ready;
  for (const auto& [id, node] : pending_) {
    if (!node.stuck && is_done(node.needs)) ready.push_back(id);
  }
  if (ready.empty()) {
    if (!pending_.empty()) now_ += std::chrono::milliseconds(1);
    return false;
  }
  const NodeId chosen = ready[random_() % ready.size()];
  const auto work = std::move(pending_[chosen].work);
  pending_.erase(chosen);
  for (const auto& memory : walled_) {
    if (const auto alive = memory.lock()) alive->open();
  }
  work();
  for (const auto& memory : walled_) {
    if (const auto alive = memory.lock()) alive->close();
  }
  return true;
}

void HostMachine::do_some() {
  for (unsigned i = random_() % 4; i > 0 && !pending_.empty(); --i) do_one();
}

void HostMachine::release() {
  for (auto& [id, node] : pending_) {
    if (node.stuck) node.work = [] {};
    node.stuck = false;
  }
}

void HostMachine::adopt(const void* address, std::size_t bytes) { pinned_.add(address, bytes); }

void HostMachine::forget(const void* address, std::size_t bytes) { pinned_.remove(address, bytes); }

bool HostMachine::reaches(const void* address, std::size_t bytes) const {
  return pinned_.cover(address, bytes);
}

void HostRuntime::adopt(const void* address, std::size_t bytes) { reachable_.add(address, bytes); }

void HostRuntime::forget(const void* address, std::size_t bytes) {
  reachable_.remove(address, bytes);
}

bool HostRuntime::reaches(const void* address, std::size_t bytes) const {
  return reachable_.cover(address, bytes) || machine_->reaches(address, bytes);
}

Result<BlockPointer> HostRuntime::memory(std::size_t bytes, bool pinned) {
  auto* own = new std::byte[bytes + 1]();  // never empty, so that addresses differ
  const std::span<std::byte> all(own, bytes);
  if (pinned) return BlockPointer(std::make_unique<Range<HostMachine>>(*machine_, own, all));
  return BlockPointer(std::make_unique<Range<HostRuntime>>(*this, own, all));
}

Result<BlockPointer> HostRuntime::device_memory(std::size_t bytes, const std::string&) {
  return memory(bytes, false);
}

Result<BlockPointer> HostRuntime::pinned_memory(std::size_t bytes, const std::string&) {
  return memory(bytes, true);
}

Result<BlockPointer> HostRuntime::register_host(std::span<std::byte> pages, bool read_only) {
  if (!options_.registers || (read_only && !options_.registers_read_only)) {
    return Status(Code::kInternal, "operation not supported");
  }
  ++registered_;
  return BlockPointer(std::make_unique<Range<HostMachine>>(*machine_, nullptr, pages));
}

Status HostRuntime::count_call() {
  if (!calls_left_) return {};
  if (*calls_left_ == 0) return {Code::kInternal, "an illegal memory access was encountered"};
  --*calls_left_;
  return {};
}

Result<ExportedMemoryPointer> HostRuntime::exported_memory(std::size_t bytes, const std::string&) {
  auto made = WalledMemory::create(bytes, options_.exports);
  machine_->adopt(made);
  return ExportedMemoryPointer(std::move(made));
}

Result<EventPointer> HostRuntime::make_event() {
  return EventPointer(std::make_unique<HostEvent>());
}

Status HostRuntime::queue(Stream stream, std::function<void()> work) {
  PHUB_RETURN_IF_ERROR(count_call());
  if (is_capturing(stream)) {
    captured_.push_back({std::move(work), captured_fronts_[index(stream)]});
    captured_fronts_[index(stream)] = {captured_.size() - 1};
    return {};
  }
  if (capturing_) return misuse("work on a stream that has not joined the graph");
  fronts_[index(stream)] = {machine_->add({std::move(work), fronts_[index(stream)], hangs_})};
  return {};
}

Status HostRuntime::copy(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (!reaches(to, bytes) || !reaches(from, bytes)) {
    return misuse("a copy of memory that the device does not reach");
  }
  return queue(stream, [=] { std::memcpy(to, from, bytes); });
}

Status HostRuntime::launch(const nn::cuda::ExecutorKernel& kernel, Stream stream) {
  return queue(stream, [kernel] {
    std::visit([](const auto& arguments) { kernels::cuda::reference::run(arguments); }, kernel);
  });
}

Status HostRuntime::record(Event& event, Stream stream) {
  auto& own = static_cast<HostEvent&>(event);
  const bool inside = is_capturing(stream);
  own.front = inside ? captured_fronts_[index(stream)] : fronts_[index(stream)];
  own.graph = inside ? capture_number_ : 0;
  return {};
}

Status HostRuntime::wait(Stream stream, const Event& event) {
  const auto& own = static_cast<const HostEvent&>(event);
  if (own.graph != 0 && own.graph != capture_number_) {
    return misuse("a wait for an event that was recorded in an ended capture");
  }
  const bool joins = capturing_ && own.graph == capture_number_;
  if (is_capturing(stream) && !joins) return misuse("a graph waits for an event outside of it");
  if (own.graph != 0 && !joins) return misuse("a wait for an event of a graph");
  if (joins) joined_[index(stream)] = true;
  Front& front = joins ? captured_fronts_[index(stream)] : fronts_[index(stream)];
  for (const NodeId node : own.front) {
    if (std::find(front.begin(), front.end(), node) == front.end()) front.push_back(node);
  }
  return {};
}

Status HostRuntime::finish(const Front& front) {
  while (!machine_->is_done(front)) {
    if (!machine_->do_one()) return misuse("the host would wait for ever");
  }
  return {};
}

Status HostRuntime::synchronise(const Event& event) {
  const auto& own = static_cast<const HostEvent&>(event);
  if (capturing_) return misuse("a wait of the host in a graph");
  if (own.graph != 0) return misuse("the host waits for an event of a graph");
  return finish(own.front);
}

Status HostRuntime::synchronise(Stream stream) {
  if (capturing_) return misuse("a wait of the host in a graph");
  return finish(fronts_[index(stream)]);
}

Result<bool> HostRuntime::idle() {
  if (capturing_) return misuse("a question of the host in a graph");
  PHUB_RETURN_IF_ERROR(count_call());
  machine_->do_some();
  return std::all_of(fronts_.begin(), fronts_.end(),
                     [&](const Front& front) { return machine_->is_done(front); });
}

Status HostRuntime::begin_capture() {
  if (!options_.captures) return {Code::kInternal, "operation not permitted"};
  if (capturing_) return misuse("a graph in a graph");
  capturing_ = true;
  ++capture_number_;
  captured_.clear();
  joined_ = {};
  joined_[index(Stream::kCompute)] = true;
  captured_fronts_ = {};
  return {};
}

Result<CapturedGraphPointer> HostRuntime::end_capture() {
  if (!capturing_) return misuse("no graph was begun");
  capturing_ = false;
  auto made = std::make_unique<HostGraph>();
  made->nodes = captured_;
  made->front = captured_fronts_[index(Stream::kCompute)];
  std::set<NodeId> joined(made->front.begin(), made->front.end());
  for (NodeId node = captured_.size(); node-- > 0;) {
    if (joined.count(node) == 0) return misuse("work of a graph that kCompute does not join");
    joined.insert(captured_[node].needs.begin(), captured_[node].needs.end());
  }
  ++graphs_;
  return CapturedGraphPointer(std::move(made));
}

Status HostRuntime::launch(const CapturedGraph& graph) {
  const auto& own = static_cast<const HostGraph&>(graph);
  if (capturing_) return misuse("a graph is launched in a graph");
  ++launches_;
  PHUB_RETURN_IF_ERROR(count_call());
  const Front before = fronts_[index(Stream::kCompute)];
  std::vector<NodeId> ids;
  for (const Node& node : own.nodes) {
    Node copy{node.work, node.needs.empty() ? before : Front()};
    for (const NodeId need : node.needs) copy.needs.push_back(ids[need]);
    copy.stuck = hangs_;
    ids.push_back(machine_->add(std::move(copy)));
  }
  if (own.front.empty()) return {};
  fronts_[index(Stream::kCompute)].clear();
  for (const NodeId node : own.front) fronts_[index(Stream::kCompute)].push_back(ids[node]);
  return {};
}

HostRunner::HostRunner(HostRuntime& runtime, nn::cuda::Lowered lowered)
    : runtime_(runtime),
      lowered_(std::move(lowered)),
      interpreter_(lowered_, 0),
      keys_(interpreter_.dropout_keys().data()) {
  runtime_.adopt(interpreter_.memory().data(), interpreter_.memory().size_bytes());
  runtime_.adopt(keys_, interpreter_.dropout_keys().size_bytes());
}

HostRunner::~HostRunner() {
  runtime_.forget(interpreter_.memory().data(), interpreter_.memory().size_bytes());
  runtime_.forget(keys_, interpreter_.dropout_keys().size_bytes());
}

Status HostRunner::run(nn::cuda::Pass pass, std::size_t first, std::size_t last) {
  const auto& steps = nn::cuda::steps_of(lowered_, pass);
  for (std::size_t i = first; i < last; ++i) {
    PHUB_RETURN_IF_ERROR(runtime_.queue(nn::cuda::Stream::kCompute,
                                        [this, &step = steps[i]] { interpreter_.run(step); }));
  }
  return {};
}

Result<std::vector<double>> HostRunner::time(nn::cuda::Pass pass) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < nn::cuda::steps_of(lowered_, pass).size(); ++i) {
    const auto begin = Clock::now();
    PHUB_RETURN_IF_ERROR(run(pass, i, i + 1));
    PHUB_RETURN_IF_ERROR(runtime_.synchronise(nn::cuda::Stream::kCompute));
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return seconds;
}

}  // namespace phub::testing
