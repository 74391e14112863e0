#include "worker/cuda/lowered/memory_plan.h"

#include <algorithm>
#include <limits>

namespace phub::nn::cuda {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// The first and the last step that names a buffer, inclusive.
struct Life {
  std::size_t first = kNever;
  std::size_t last = 0;

  void extend(std::size_t step) {
    first = std::min(first, step);
    last = std::max(last, step);
  }
  bool overlaps(const Life& other) const { return first <= other.last && other.first <= last; }
};

// Lives on one line of time: inference, then a step of training with the loss between its halves.
std::vector<Life> lives_of(const Lowered& lowered) {
  std::vector<Life> lives(lowered.buffers.size());
  std::size_t now = 0;
  const auto walk = [&](const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      for (const BufferId id : step.buffers()) lives[id].extend(now);
      ++now;
    }
  };
  walk(lowered.inference);
  lives[lowered.inference_output].extend(now++);  // read by who asked
  walk(lowered.forward);
  lives[lowered.output].extend(now);  // the loss reads one and writes the other
  lives[lowered.output_gradient].extend(now++);
  walk(lowered.backward);
  if (lowered.input_gradient != kNoBuffer) lives[lowered.input_gradient].extend(now);
  return lives;
}

struct PlacedBuffer {
  std::size_t offset, end;
  Life life;
};

// The lowest gap that is free for the whole life.
std::size_t place(const std::vector<PlacedBuffer>& placed, const Life& life, std::size_t bytes,
                  std::size_t start) {
  std::size_t offset = start;
  for (const PlacedBuffer& other : placed) {  // by offset
    if (!other.life.overlaps(life)) continue;
    if (offset + bytes <= other.offset) break;
    offset = std::max(offset, other.end);
  }
  return offset;
}

}  // namespace

MemoryPlan plan_memory(const Lowered& lowered,
                       const std::function<std::size_t(const Buffer&)>& bytes_of) {
  MemoryPlan plan;
  plan.offsets.assign(lowered.buffers.size(), 0);
  std::vector<BufferId> scratch;
  for (BufferId id = 0; id < lowered.buffers.size(); ++id) {
    const std::size_t bytes = aligned_bytes(bytes_of(lowered.buffer(id)));
    if (lowered.buffer(id).role == BufferRole::kScratch) {
      scratch.push_back(id);
      plan.scratch_bytes_unshared += bytes;
      continue;
    }
    plan.offsets[id] = plan.persistent_bytes;
    plan.persistent_bytes += bytes;
  }
  plan.bytes = plan.persistent_bytes;
  const std::vector<Life> lives = lives_of(lowered);
  // The largest first; among equals the earliest, so that the plan is the same everywhere.
  std::stable_sort(scratch.begin(), scratch.end(), [&](BufferId a, BufferId b) {
    return bytes_of(lowered.buffer(a)) > bytes_of(lowered.buffer(b));
  });
  std::vector<PlacedBuffer> placed;
  for (const BufferId id : scratch) {
    if (lives[id].first == kNever) continue;  // named by no step
    const std::size_t bytes = aligned_bytes(bytes_of(lowered.buffer(id)));
    const std::size_t offset = place(placed, lives[id], bytes, plan.persistent_bytes);
    plan.offsets[id] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    const auto behind = std::find_if(placed.begin(), placed.end(), [&](const PlacedBuffer& other) {
      return other.offset > offset;
    });
    placed.insert(behind, {offset, offset + bytes, lives[id]});
  }
  return plan;
}

}  // namespace phub::nn::cuda
