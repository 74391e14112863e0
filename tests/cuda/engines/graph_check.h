// Every different graph of a network's training, at the network's real size, against its
// operations' definitions: each is checked where it first comes, by the bounds of step_bounds.h.
//
// The same work as StepComparison's (tests/cuda/support/step_comparison.h), which interprets on the
// host and is far too slow for a batch of 256: here the machine that runs the steps also works out
// what they should have written (naive_graph.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/cuda/engines/buffer_judge.h"
#include "tests/cuda/engines/naive_graph.h"
#include "tests/cuda/support/step_bounds.h"
#include "tests/cuda/support/step_comparison.h"
#include "worker/cuda/lowered/lowered.h"
#include "worker/cuda/lowered/runner.h"

namespace phub::testing::naive {

// A number that looks random, in [0, 1).
PHUB_HOST_DEVICE inline float scrambled(std::uint64_t seed, Index i) {
  std::uint64_t x = seed + static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return static_cast<float>((x ^ (x >> 31U)) >> 40U) * 0x1p-24F;
}

// fp32 of a buffer, each element moved up or down by this part of it.
template <typename Memory>
struct Widen {
  const void* from;
  nn::cuda::ElementType type;
  float* to;
  Index elements;
  float by;
  std::uint64_t seed;
  PHUB_HOST_DEVICE Index size() const { return elements; }
  PHUB_DEVICE void operator()(Index i) const {
    const float value = Memory::load(from, type, i);
    to[i] = scrambled(seed, i) < 0.5F ? value * (1.0F + by) : value * (1.0F - by);
  }
};

// Noise in [-bound, bound), zeros in the padding. A buffer is [k][pixel][channel].
template <typename Memory>
struct Noise {
  void* to;
  nn::cuda::ElementType type;
  Index all_k, pixels, all_channels;
  Index k, channels;  // not padded
  float bound;
  std::uint64_t seed;
  PHUB_HOST_DEVICE Index size() const { return all_k * pixels * all_channels; }
  PHUB_DEVICE void operator()(Index i) const {
    const bool is_there = i % all_channels < channels && i / all_channels / pixels < k;
    Memory::store(to, type, i, is_there ? bound * (2.0F * scrambled(seed, i) - 1.0F) : 0.0F);
  }
};

template <typename Memory>
struct SpreadMaxima {
  void* to;
  nn::cuda::ElementType type;
  Tensor like;
  PHUB_HOST_DEVICE Index size() const { return like.elements(); }
  PHUB_DEVICE void operator()(Index i) const {
    const Position p = like.position(i);
    Memory::store(to, type, i, spread_level(p.n, p.c, p.h, p.w));
  }
};

// The operands that a graph writes.
struct Outputs {
  std::set<nn::cuda::OperandId>& all;
  void operator()(const nn::cuda::ConvolutionOp& op) const {
    using Direction = nn::cuda::ConvolutionOp::Direction;
    all.insert(op.direction == Direction::kForward        ? op.output
               : op.direction == Direction::kBackwardData ? op.image
                                                          : op.weights);
  }
  void operator()(const nn::cuda::PointwiseOp& op) const { all.insert(op.output); }
  void operator()(const nn::cuda::GenerateStatisticsOp& op) const {
    all.insert({op.sum, op.sum_of_squares});
  }
  void operator()(const nn::cuda::BatchNormForwardOp& op) const {
    all.insert(
        {op.y, op.mean, op.inverse_deviation, op.next_running_mean, op.next_running_variance});
  }
  void operator()(const nn::cuda::BatchNormBackwardOp& op) const {
    all.insert({op.dx, op.dscale, op.dbias});
  }
  void operator()(const nn::cuda::BatchNormBackwardWeightsOp& op) const {
    all.insert({op.dscale, op.dbias, op.dy_factor, op.x_factor, op.constant});
  }
  void operator()(const nn::cuda::PoolForwardOp& op) const {
    all.insert(op.y);
    if (op.index != op.x) all.insert(op.index);
  }
  void operator()(const nn::cuda::PoolBackwardOp& op) const { all.insert(op.dx); }
  void operator()(const nn::cuda::MatmulOp& op) const { all.insert(op.c); }
};
inline std::set<nn::cuda::OperandId> outputs_of(const nn::cuda::OpGraph& graph) {
  std::set<nn::cuda::OperandId> all;
  for (const nn::cuda::Operation& operation : graph.operations()) {
    std::visit(Outputs{all}, operation);
  }
  return all;
}

// `Machine`: naive_graph.h's, with `Memory`, static load and store of an element of a type, and
// `numbers()`, kPartialSums doubles twice that sums write and `total(which)` adds up.
template <typename Machine>
class GraphCheck {
 public:
  using AddressOf = std::function<void*(nn::cuda::BufferId)>;
  using RunStep = std::function<Status(nn::cuda::Pass, std::size_t)>;

  // All outlive it. `run` returns when the step is done.
  GraphCheck(Machine& machine, const nn::cuda::Lowered& lowered, AddressOf address, RunStep run)
      : machine_(machine),
        judge_(machine),
        lowered_(lowered),
        address_(std::move(address)),
        run_(std::move(run)) {}

  // One step of training on noise. Empty: every graph does what it says. Error: the step's.
  Result<std::vector<Difference>> run(const StepComparison::Channels& channels) {
    std::vector<Difference> differences;
    prepare(channels.input);
    PHUB_RETURN_IF_ERROR(run(nn::cuda::Pass::kForward, differences));
    write_noise(lowered_.output_gradient, channels.output);
    PHUB_RETURN_IF_ERROR(run(nn::cuda::Pass::kBackward, differences));
    return differences;
  }
  std::size_t checked() const { return seen_.size(); }  // different graphs

 private:
  using Memory = typename Machine::Memory;
  using Arrays = std::map<nn::cuda::BufferId, typename Machine::Array>;

  static bool is_index(const nn::cuda::Buffer& buffer) {
    return buffer.type == nn::cuda::ElementType::kInt8;
  }
  Index elements(nn::cuda::BufferId id) const { return elements_of(lowered_.buffer(id)); }

  void prepare(std::int64_t input_channels) {
    for (nn::cuda::BufferId id = 0; id < lowered_.buffers.size(); ++id) {
      const nn::cuda::Buffer& buffer = lowered_.buffer(id);
      if (buffer.role != nn::cuda::BufferRole::kState && !is_index(buffer)) write_noise(id, 0);
    }
    for (const nn::cuda::ParameterLayout& layout : lowered_.parameters) {
      // Of a size that keeps activations near 1.
      const auto bound =
          static_cast<float>(std::sqrt(3.0 / static_cast<double>(layout.c * layout.pixels)));
      machine_.each(Noise<Memory>{address_(layout.value), lowered_.buffer(layout.value).type,
                                  layout.padded_k, layout.pixels, layout.padded_c, layout.k,
                                  layout.c, bound, ++seed_});
    }
    write_noise(lowered_.input, input_channels);
  }
  void write_noise(nn::cuda::BufferId id, std::int64_t channels) {
    const nn::cuda::Buffer& buffer = lowered_.buffer(id);
    const Index padded = buffer.dimensions[1];
    machine_.each(Noise<Memory>{address_(id), buffer.type, 1, elements(id) / padded, padded, 1,
                                channels, 1.0F, ++seed_});
  }

  Status run(nn::cuda::Pass pass, std::vector<Difference>& differences) {
    const std::vector<nn::cuda::Step>& steps = nn::cuda::steps_of(lowered_, pass);
    for (std::size_t index = 0; index < steps.size(); ++index) {
      const auto* work = std::get_if<nn::cuda::GraphStep>(&steps[index].work);
      if (work == nullptr) {
        PHUB_RETURN_IF_ERROR(run_(pass, index));
        continue;
      }
      if (!seen_.insert(work->graph.key()).second) {
        if (writes_index(*work)) {  // backward may be checked here
          spread_maxima(*work);
          keep_index(*work, interpret(*work, 0));
        }
        PHUB_RETURN_IF_ERROR(run_(pass, index));
        continue;
      }
      spread_maxima(*work);
      const Arrays expected = interpret(*work, 0);
      std::map<nn::cuda::BufferId, double> moved;
      for (int times = 1; times <= kDisturbances; ++times) {
        const Arrays other = interpret(*work, times);
        for (const auto& [id, array] : other) {
          moved[id] = std::max(moved[id],
                               judge_.compared(lowered_.buffer(id), array, expected.at(id)).first);
        }
      }
      const std::set<nn::cuda::BufferId> written = written_by(*work);
      for (const nn::cuda::BufferId id : written) poison(id);
      PHUB_RETURN_IF_ERROR(run_(pass, index));
      for (const auto& [id, array] : expected) {
        if (is_index(lowered_.buffer(id))) continue;
        auto difference = written.contains(id) ? wrong(id, array, moved[id]) : changed(id, array);
        if (!difference) continue;
        difference->step = steps[index].name;
        differences.push_back(std::move(*difference));
      }
      keep_index(*work, expected);
    }
    return {};
  }

  static bool writes_index(const nn::cuda::GraphStep& work) {
    const auto& operations = work.graph.operations();
    return std::any_of(operations.begin(), operations.end(), [](const auto& operation) {
      const auto* pool = std::get_if<nn::cuda::PoolForwardOp>(&operation);
      return pool != nullptr && pool->index != pool->x;
    });
  }
  static std::set<nn::cuda::BufferId> written_by(const nn::cuda::GraphStep& work) {
    const std::set<nn::cuda::OperandId> operands = outputs_of(work.graph);
    std::set<nn::cuda::BufferId> buffers;
    std::size_t at = 0;
    for (nn::cuda::OperandId id = 0; id < work.graph.operands().size(); ++id) {
      if (work.graph.operand(id).storage != nn::cuda::Storage::kDevice) continue;
      if (operands.contains(id)) buffers.insert(work.buffers[at]);
      ++at;
    }
    return buffers;
  }
  // What was there is no part of what a graph writes.
  void poison(nn::cuda::BufferId id) {
    const nn::cuda::Buffer& buffer = lowered_.buffer(id);
    if (is_index(buffer)) return;
    machine_.each(Noise<Memory>{address_(id), buffer.type, 1, elements(id), 1, 1, 1, NAN, 0});
  }

  void spread_maxima(const nn::cuda::GraphStep& work) {
    for (const nn::cuda::Operation& operation : work.graph.operations()) {
      const auto* pool = std::get_if<nn::cuda::PoolForwardOp>(&operation);
      if (pool == nullptr || pool->mode != nn::cuda::PoolMode::kMax) continue;
      const nn::cuda::Operand& x = work.graph.operand(pool->x);
      if (x.storage != nn::cuda::Storage::kDevice) continue;
      std::size_t at = 0;  // among the operands with memory
      for (nn::cuda::OperandId id = 0; id < pool->x; ++id) {
        if (work.graph.operand(id).storage == nn::cuda::Storage::kDevice) ++at;
      }
      const nn::cuda::BufferId id = work.buffers[at];
      machine_.each(SpreadMaxima<Memory>{address_(id), lowered_.buffer(id).type,
                                         tensor_of(nullptr, x.dimensions, x.strides)});
    }
  }

  // What the step's buffers have after it, in fp32; 0: as they are now, else of inputs that are
  // disturbed in this way.
  Arrays interpret(const nn::cuda::GraphStep& work, int disturbance) {
    Arrays arrays;
    std::vector<float*> memory;
    for (const nn::cuda::BufferId id : work.buffers) {
      const auto [at, is_new] =
          arrays.try_emplace(id, machine_.make(static_cast<std::size_t>(elements(id))));
      memory.push_back(at->second.data());
      if (is_new) widen(id, at->second.data(), disturbance);
    }
    Graph<Machine>(machine_, work.graph, memory).run();
    return arrays;
  }
  void widen(nn::cuda::BufferId id, float* to, int disturbance) {
    const nn::cuda::Buffer& buffer = lowered_.buffer(id);
    const bool is_known = indices_.contains(id);
    if (is_index(buffer) && !is_known) return;  // the graph writes it
    const void* from = is_index(buffer) ? indices_.at(id).data() : address_(id);
    const auto type = is_index(buffer) ? nn::cuda::ElementType::kFloat32 : buffer.type;
    const double by = disturbance == 0 || is_index(buffer) ? 0.0 : rounding_of(buffer.type);
    machine_.each(Widen<Memory>{from, type, to, elements(id), static_cast<float>(by), ++seed_});
  }
  // A device's indices are its own affair: pooling's backward gets ours.
  void keep_index(const nn::cuda::GraphStep& work, const Arrays& expected) {
    for (const nn::cuda::BufferId id : work.buffers) {
      if (!is_index(lowered_.buffer(id))) continue;
      const auto kept =
          indices_.try_emplace(id, machine_.make(static_cast<std::size_t>(elements(id))));
      machine_.each(Widen<Memory>{expected.at(id).data(), nn::cuda::ElementType::kFloat32,
                                  kept.first->second.data(), elements(id), 0.0F, 0});
    }
  }

  typename Machine::Array widened(nn::cuda::BufferId id) {
    auto found = machine_.make(static_cast<std::size_t>(elements(id)));
    widen(id, found.data(), 0);
    return found;
  }
  std::optional<Difference> wrong(nn::cuda::BufferId id, const typename Machine::Array& expected,
                                  double moved) {
    return judge_.wrong(lowered_.buffer(id), widened(id), expected, moved);
  }
  std::optional<Difference> changed(nn::cuda::BufferId id,
                                    const typename Machine::Array& expected) {
    const nn::cuda::Buffer& buffer = lowered_.buffer(id);
    const double off = judge_.compared(buffer, widened(id), expected).first;
    if (off == 0.0) return std::nullopt;
    return Difference{.step = {},
                      .buffer = buffer.name + ", only read",
                      .rms = off,
                      .elements = static_cast<std::size_t>(elements(id))};
  }

  Machine& machine_;
  BufferJudge<Machine> judge_;
  const nn::cuda::Lowered& lowered_;
  const AddressOf address_;
  const RunStep run_;
  std::set<std::string> seen_;  // keys
  Arrays indices_;
  std::uint64_t seed_ = 0;
};

}  // namespace phub::testing::naive
