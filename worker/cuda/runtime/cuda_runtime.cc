#include "worker/cuda/runtime/cuda_runtime.h"

#include <utility>
#include <variant>

#include "kernels/cuda/training_kernels.h"
#include "worker/cuda/runtime/cuda_export.h"
#include "worker/cuda/runtime/device.h"

namespace phub::nn::cuda {
namespace {

struct DeviceBlock : Block {
  ~DeviceBlock() override { cudaFree(address); }
};

struct PinnedBlock : Block {
  ~PinnedBlock() override { cudaFreeHost(address); }
};

struct RegisteredBlock : Block {
  ~RegisteredBlock() override { cudaHostUnregister(address); }
};

struct CudaEvent : Event {
  ~CudaEvent() override { cudaEventDestroy(event); }
  cudaEvent_t event = nullptr;
};

struct CudaGraph : CapturedGraph {
  ~CudaGraph() override { cudaGraphExecDestroy(executable); }
  cudaGraphExec_t executable = nullptr;
};

cudaEvent_t raw(const Event& event) { return static_cast<const CudaEvent&>(event).event; }

std::string mebibytes(std::size_t bytes, const std::string& where, const std::string& what) {
  return std::to_string(bytes >> 20U) + " MiB " + where + " for " + what;
}

Status find_device(std::uint32_t device, const std::string& field) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());
    const std::string why = found != cudaSuccess ? cudaGetErrorString(found) : "no device";
    return {Code::kNotFound,
            "no NVIDIA GPU that CUDA can use (" + why +
                "): is its driver there and new enough, does nvidia-smi list it, and "
                "is CUDA_VISIBLE_DEVICES right? Or take the CPUs: --backend "
                "onednn (train.backend: \"onednn\")"};
  }
  if (device >= static_cast<std::uint32_t>(count)) {
    return {Code::kInvalidArgument, field + ": there is no GPU " + std::to_string(device) +
                                        ", they are 0 to " + std::to_string(count - 1)};
  }
  return cuda_status(cudaSetDevice(static_cast<int>(device)), "the GPU");
}

}  // namespace

Result<BlockPointer> allocate(std::size_t bytes, const std::string& what) {
  auto block = std::make_unique<DeviceBlock>();
  block->bytes = bytes;
  if (bytes == 0) return BlockPointer(std::move(block));
  const std::string context = mebibytes(bytes, "on the GPU", what);
  PHUB_RETURN_IF_ERROR(cuda_status(cudaMalloc(&block->address, bytes), context));
  PHUB_RETURN_IF_ERROR(clear(*block, context));
  return BlockPointer(std::move(block));
}

Result<std::unique_ptr<CudaRuntime>> CudaRuntime::create(std::uint32_t device,
                                                         const std::string& field) {
  PHUB_RETURN_IF_ERROR(find_device(device, field));
  std::unique_ptr<CudaRuntime> runtime(new CudaRuntime());
  runtime->device_ = device;
  cudaDeviceProp properties = {};
  PHUB_RETURN_IF_ERROR(
      cuda_status(cudaGetDeviceProperties(&properties, static_cast<int>(device)), "the GPU"));
  runtime->device_name_ = properties.name;
  constexpr int kOldestMajor = 8;  // what the kernels are compiled for (deploy/find_cuda.cmake)
  if (properties.major < kOldestMajor) {
    return Status(Code::kFailedPrecondition, runtime->device_name_ + " has compute capability " +
                                                 std::to_string(properties.major) + '.' +
                                                 std::to_string(properties.minor) +
                                                 ": 8.0 (Ampere) and newer are offered");
  }
  // What others wait for goes first: the copies of parameters and gradients.
  int least = 0, greatest = 0;
  PHUB_RETURN_IF_ERROR(
      cuda_status(cudaDeviceGetStreamPriorityRange(&least, &greatest), "the GPU's streams"));
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    const bool computes = stream == static_cast<std::size_t>(Stream::kCompute);
    PHUB_RETURN_IF_ERROR(
        cuda_status(cudaStreamCreateWithPriority(&runtime->streams_[stream], cudaStreamNonBlocking,
                                                 computes ? least : greatest),
                    "the GPU's streams"));
  }
  return runtime;
}

CudaRuntime::~CudaRuntime() {
  for (cudaStream_t stream : streams_) {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
}

Status CudaRuntime::make_current() {
  return cuda_status(cudaSetDevice(static_cast<int>(device_)), "the GPU");
}

Result<BlockPointer> CudaRuntime::device_memory(std::size_t bytes, const std::string& what) {
  return allocate(bytes, what);
}

Result<BlockPointer> CudaRuntime::pinned_memory(std::size_t bytes, const std::string& what) {
  auto block = std::make_unique<PinnedBlock>();
  block->bytes = bytes;
  if (bytes == 0) return BlockPointer(std::move(block));
  PHUB_RETURN_IF_ERROR(cuda_status(cudaHostAlloc(&block->address, bytes, cudaHostAllocDefault),
                                   mebibytes(bytes, "of pinned memory", what)));
  __builtin_memset(block->address, 0, bytes);
  return BlockPointer(std::move(block));
}

Result<BlockPointer> CudaRuntime::register_host(std::span<std::byte> pages, bool read_only) {
  // Portable: for all GPUs of the process.
  const unsigned flags =
      read_only ? cudaHostRegisterPortable | cudaHostRegisterReadOnly : cudaHostRegisterPortable;
  PHUB_RETURN_IF_ERROR(
      cuda_status(cudaHostRegister(pages.data(), pages.size(), flags), "cudaHostRegister"));
  auto block = std::make_unique<RegisteredBlock>();
  block->address = pages.data();
  block->bytes = pages.size();
  return BlockPointer(std::move(block));
}

Result<ExportedMemoryPointer> CudaRuntime::exported_memory(std::size_t bytes,
                                                           const std::string& what) {
  return export_device_memory(bytes, what);
}

Result<EventPointer> CudaRuntime::make_event() {
  auto event = std::make_unique<CudaEvent>();
  PHUB_RETURN_IF_ERROR(
      cuda_status(cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming), "an event"));
  return EventPointer(std::move(event));
}

Status CudaRuntime::copy(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  return cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda_stream(stream)),
                     "a copy");
}

Status CudaRuntime::launch(const ExecutorKernel& kernel, Stream stream) {
  return std::visit(
      [&](const auto& arguments) {
        return cuda_status(kernels::cuda::run(arguments, cuda_stream(stream)), "a kernel");
      },
      kernel);
}

Status CudaRuntime::record(Event& event, Stream stream) {
  return cuda_status(cudaEventRecord(raw(event), cuda_stream(stream)), "an event");
}

Status CudaRuntime::wait(Stream stream, const Event& event) {
  return cuda_status(cudaStreamWaitEvent(cuda_stream(stream), raw(event), 0), "an event");
}

Status CudaRuntime::synchronise(const Event& event) {
  return cuda_status(cudaEventSynchronize(raw(event)), "the GPU's work");
}

Status CudaRuntime::synchronise(Stream stream) {
  return cuda_status(cudaStreamSynchronize(cuda_stream(stream)), "the GPU's work");
}

Result<bool> CudaRuntime::idle() {
  bool all = true;
  for (const cudaStream_t stream : streams_) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // or the next kernel's check would see it
      all = false;
    } else {
      PHUB_RETURN_IF_ERROR(cuda_status(state, "the GPU's work"));
    }
  }
  return all;
}

Status CudaRuntime::begin_capture() {
  // Of this thread only: others may allocate meanwhile.
  return cuda_status(
      cudaStreamBeginCapture(cuda_stream(Stream::kCompute), cudaStreamCaptureModeThreadLocal),
      "a graph");
}

Result<CapturedGraphPointer> CudaRuntime::end_capture() {
  cudaGraph_t graph = nullptr;
  PHUB_RETURN_IF_ERROR(
      cuda_status(cudaStreamEndCapture(cuda_stream(Stream::kCompute), &graph), "a graph"));
  auto captured = std::make_unique<CudaGraph>();
  // With each stream's priority: else what is published would wait behind kernels.
  const cudaError_t made =
      cudaGraphInstantiate(&captured->executable, graph, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(graph);
  PHUB_RETURN_IF_ERROR(cuda_status(made, "a graph"));
  return CapturedGraphPointer(std::move(captured));
}

Status CudaRuntime::launch(const CapturedGraph& graph) {
  const cudaGraphExec_t executable = static_cast<const CudaGraph&>(graph).executable;
  return cuda_status(cudaGraphLaunch(executable, cuda_stream(Stream::kCompute)), "a captured pass");
}

}  // namespace phub::nn::cuda
