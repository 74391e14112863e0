// A device that is the host: the streams, events and graphs of worker/cuda/runtime/runtime.h,
// with kernels by their specification.
//
// Work waits until somebody asks for it, and then what is next is picked at random among all that
// streams and events allow: what relies on luck instead of an event shows with some seed. Copies
// fail that touch memory which a GPU could not reach, and uses of graphs that CUDA refuses.
//
// Several of them can share a machine: then all that is queued on any of them is one order's
// choice, each has memory that the others do not reach, and pinned memory is everyone's.
//
// Owned by a test; one thread.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/support/lowered_interpreter.h"
#include "tests/support/walled_memory.h"
#include "worker/cuda/lowered/runner.h"
#include "worker/cuda/runtime/runtime.h"

namespace phub::testing {

// What copies may touch. Ranges may begin at one address: pages that are registered, and a block in
// the first of them.
class MemoryRanges {
 public:
  void add(const void* address, std::size_t bytes) { ranges_.emplace(at(address), bytes); }
  // REQUIRES: it was added.
  void remove(const void* address, std::size_t bytes) {
    ranges_.erase(ranges_.find({at(address), bytes}));
  }
  bool cover(const void* address, std::size_t bytes) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& range) {
      return at(address) >= range.first && at(address) + bytes <= range.first + range.second;
    });
  }

 private:
  static const std::byte* at(const void* address) { return static_cast<const std::byte*>(address); }

  std::multiset<std::pair<const std::byte*, std::size_t>> ranges_;
};

// What waits to be done on all devices of a test.
class HostMachine {
 public:
  using NodeId = std::size_t;
  struct Node {
    std::function<void()> work;
    std::vector<NodeId> needs;
    bool stuck = false;  // never done
  };

  explicit HostMachine(unsigned seed) : random_(seed) {}

  NodeId add(Node node);
  bool is_done(const std::vector<NodeId>& nodes) const;
  // Some of what can be done; false: nothing can, all is done or stuck.
  bool do_one();
  void do_some();
  // Passes a millisecond at a time, where there is nothing to be done but what is stuck: so what is
  // given up at a deadline is, on every machine, what hangs.
  std::chrono::steady_clock::time_point now() const { return now_; }
  // Memory with a wall, which is open while something is done.
  void adopt(const std::shared_ptr<const WalledMemory>& memory) { walled_.push_back(memory); }
  // Lets what is stuck go on, without doing it.
  void release();

  // Pinned memory.
  void adopt(const void* address, std::size_t bytes);
  void forget(const void* address, std::size_t bytes);
  bool reaches(const void* address, std::size_t bytes) const;

 private:
  std::mt19937 random_;
  std::chrono::steady_clock::time_point now_;
  std::map<NodeId, Node> pending_;
  NodeId next_ = 0;
  MemoryRanges pinned_;
  std::vector<std::weak_ptr<const WalledMemory>> walled_;
};

class HostRuntime : public nn::cuda::Runtime {
 public:
  using Stream = nn::cuda::Stream;

  struct Options {
    unsigned seed = 1;
    bool registers = true;            // host memory can be registered
    bool registers_read_only = true;  // also such that is mapped so
    bool captures = true;             // graphs can be made
    bool exports = true;              // exported memory is a "dma-buf"
  };
  explicit HostRuntime(const Options& options)
      : HostRuntime(options, std::make_shared<HostMachine>(options.seed)) {}
  HostRuntime(const Options& options, std::shared_ptr<HostMachine> machine)
      : options_(options), machine_(std::move(machine)) {}

  Result<nn::cuda::BlockPointer> device_memory(std::size_t bytes, const std::string& what) override;
  Result<nn::cuda::BlockPointer> pinned_memory(std::size_t bytes, const std::string& what) override;
  Result<nn::cuda::BlockPointer> register_host(std::span<std::byte> pages, bool read_only) override;
  // No CPU reads or writes there but kernels, while they run (walled_memory.h).
  Result<ExportedMemoryPointer> exported_memory(std::size_t bytes,
                                                const std::string& what) override;
  Result<nn::cuda::EventPointer> make_event() override;
  Status copy(void* to, const void* from, std::size_t bytes, Stream stream) override;
  Status launch(const nn::cuda::ExecutorKernel& kernel, Stream stream) override;
  Status record(nn::cuda::Event& event, Stream stream) override;
  Status wait(Stream stream, const nn::cuda::Event& event) override;
  Status synchronise(const nn::cuda::Event& event) override;
  Status synchronise(Stream stream) override;
  Result<bool> idle() override;
  std::chrono::steady_clock::time_point now() override { return machine_->now(); }
  Status begin_capture() override;
  Result<nn::cuda::CapturedGraphPointer> end_capture() override;
  Status launch(const nn::cuda::CapturedGraph& graph) override;

  // What devices do together (host_collectives.h): what comes next on the stream comes after
  // `nodes`.
  const std::vector<std::size_t>& front(Stream stream) const { return fronts_[index(stream)]; }
  void set_front(Stream stream, std::vector<std::size_t> nodes) {
    fronts_[index(stream)] = std::move(nodes);
  }
  bool is_capturing() const { return capturing_; }
  bool reaches(const void* address, std::size_t bytes) const;

  // What a runner does, and its memory.
  Status queue(Stream stream, std::function<void()> work);
  void adopt(const void* address, std::size_t bytes);
  void forget(const void* address, std::size_t bytes);

  // From now on it does so many calls, then fails for good.
  void fail_after(std::size_t calls) { calls_left_ = calls; }

  // Nothing that is queued from now on is ever done.
  void hang() { hangs_ = true; }

  std::size_t graphs() const { return graphs_; }      // made
  std::size_t launches() const { return launches_; }  // of graphs
  std::size_t registered() const { return registered_; }

 private:
  using NodeId = HostMachine::NodeId;
  using Node = HostMachine::Node;
  // What comes next on a stream comes after these.
  using Front = std::vector<NodeId>;
  struct HostEvent;
  struct HostGraph;

  bool is_capturing(Stream stream) const { return capturing_ && joined_[index(stream)]; }
  static std::size_t index(Stream stream) { return static_cast<std::size_t>(stream); }
  Status finish(const Front& front);
  Status count_call();
  Result<nn::cuda::BlockPointer> memory(std::size_t bytes, bool pinned);

  Options options_;
  std::shared_ptr<HostMachine> machine_;
  MemoryRanges reachable_;
  std::optional<std::size_t> calls_left_;
  bool hangs_ = false;

  std::array<Front, nn::cuda::kStreams> fronts_;

  bool capturing_ = false;
  std::uint64_t capture_number_ = 0;
  std::vector<Node> captured_;  // ids are positions
  std::array<bool, nn::cuda::kStreams> joined_ = {};
  std::array<Front, nn::cuda::kStreams> captured_fronts_;
  std::size_t graphs_ = 0, launches_ = 0, registered_ = 0;
};

// The interpreter as a runner on it: all buffers are fp32.
class HostRunner : public nn::cuda::LoweredRunner {
 public:
  HostRunner(HostRuntime& runtime, nn::cuda::Lowered lowered);
  ~HostRunner() override;

  const nn::cuda::Lowered& lowered() const override { return lowered_; }
  void* address(nn::cuda::BufferId id) const override { return interpreter_.buffer(id).data(); }
  DataType type_of(nn::cuda::BufferId) const override { return DataType::kFloat32; }
  std::uint64_t* dropout_keys() const override { return keys_; }
  Status run(nn::cuda::Pass pass, std::size_t first, std::size_t last) override;
  Result<std::vector<double>> time(nn::cuda::Pass pass) override;

 private:
  HostRuntime& runtime_;
  nn::cuda::Lowered lowered_;
  LoweredInterpreter interpreter_;
  std::uint64_t* keys_;
};

}  // namespace phub::testing
