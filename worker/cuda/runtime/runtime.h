// What an executor asks of the device: memory, three streams of queued work, and graphs that repeat
// it.
//
// CudaRuntime (cuda_runtime.h) is CUDA's; tests have one that runs on the host and picks what is
// next at random among all that the order of streams and events allows. No header of CUDA is needed
// here. Used by the executor's thread. Blocks and events are given back before the runtime goes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "common/base/status.h"
#include "common/memory/exported_memory.h"
#include "kernels/cuda/training_arguments.h"

namespace phub::nn::cuda {

// Work on one stream is done in the order in which it was queued; streams wait for each other's
// events.
enum class Stream : std::uint8_t { kCompute, kUpload, kDownload };
inline constexpr std::size_t kStreams = 3;

// Memory of the device, or of the host where the device can copy from and to. One owner.
struct Block {
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  virtual ~Block() = default;

  template <typename T>
  T* as(std::size_t byte = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(address) + byte);
  }

  void* address = nullptr;
  std::size_t bytes = 0;
};
using BlockPointer = std::unique_ptr<Block>;

// A point in a stream's work: the last one that was recorded.
struct Event {
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;
};
using EventPointer = std::unique_ptr<Event>;

// Work that can be queued again as a whole (a CUDA graph).
struct CapturedGraph {
  CapturedGraph() = default;
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  virtual ~CapturedGraph() = default;
};
using CapturedGraphPointer = std::unique_ptr<CapturedGraph>;

using ExecutorKernel = std::variant<kernels::cuda::LoadParameters, kernels::cuda::PublishGradients,
                                    kernels::cuda::SoftmaxLoss, kernels::cuda::OptimizerStep,
                                    kernels::cuda::PrepareImages>;

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  // Where one thread has several: the calls that follow, and libraries', are about this device.
  virtual Status make_current() { return {}; }

  // Cleared to zeros. `what` is for errors: kResourceExhausted.
  virtual Result<BlockPointer> device_memory(std::size_t bytes, const std::string& what) = 0;
  virtual Result<BlockPointer> pinned_memory(std::size_t bytes, const std::string& what) = 0;
  // Makes memory that is there (whole pages) pinned. Errors say why it cannot be.
  virtual Result<BlockPointer> register_host(std::span<std::byte> pages, bool read_only) = 0;
  // Device memory that network adapters may be able to read; whether it could be exported for
  // them is said in it. Kernels write to it, copies do not. May outlive the runtime.
  virtual Result<ExportedMemoryPointer> exported_memory(std::size_t bytes,
                                                        const std::string& what) = 0;
  virtual Result<EventPointer> make_event() = 0;

  // Queued; host memory is pinned and stays as it is until the copy is done.
  virtual Status copy(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual Status launch(const ExecutorKernel& kernel, Stream stream) = 0;
  virtual Status record(Event& event, Stream stream) = 0;
  // What is queued on the stream from now on comes after the event's last record; there is none: at
  // once.
  virtual Status wait(Stream stream, const Event& event) = 0;

  // Returns when the event's last record, or all of the stream's work, is done. Errors are those of
  // the work.
  virtual Status synchronise(const Event& event) = 0;
  virtual Status synchronise(Stream stream) = 0;
  // Whether all that was queued is done, on every stream.
  virtual Result<bool> idle() = 0;
  // For deadlines of waits for the device.
  virtual std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

  // Between the two, work is captured instead of done: that of kCompute, and of streams which wait
  // for an event that was recorded there. Those are waited for by kCompute before the end.
  virtual Status begin_capture() = 0;
  virtual Result<CapturedGraphPointer> end_capture() = 0;
  // Queues it on kCompute.
  virtual Status launch(const CapturedGraph& graph) = 0;
};

}  // namespace phub::nn::cuda
