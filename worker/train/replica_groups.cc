#include "worker/train/replica_groups.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/reduce.h"
#include "worker/train/exchange/initialise.h"
#include "worker/train/exchange/key_arrays.h"
#include "worker/train/group_threads.h"

namespace phub::train {
namespace {

Status another_failed() { return {Code::kAborted, "another of the worker's groups has failed"}; }

kernels::Source source_of(std::span<const float> values) {
  return {std::as_bytes(values).data(), DataType::kFloat32};
}

class ReplicaGroups : public nn::Executor {
 public:
  explicit ReplicaGroups(std::uint32_t groups)
      : replicas_(groups), progress_(groups), losses_(groups), threads_(groups) {}
  // Where a replica was made its threads are.
  ~ReplicaGroups() override {
    const Status ended = threads_.run([this](std::uint32_t group) {
      replicas_[group].reset();
      return Status();
    });
    PHUB_CHECK(ended.ok(), ended.message());
  }

  Status make_replicas(const nn::Graph& graph, const ExecutorOptions& each) {
    // One after the other: some measure kernels when they are made.
    for (std::uint32_t turn = 0; turn < groups(); ++turn) {
      PHUB_RETURN_IF_ERROR(threads_.run([&](std::uint32_t group) -> Status {
        if (group != turn) return {};
        PHUB_ASSIGN_OR_RETURN(replicas_[group], make_executor(graph, each));
        return {};
      }));
      gradients_.emplace_back(turn > 0 ? keys_of(first()) : std::vector<KeySpec>());
    }
    return {};
  }

  const std::vector<nn::ParameterSpec>& parameters() const override { return first().parameters(); }
  Result<std::vector<nn::StateBuffer>> read_buffers() override {
    return replicas_.front()->read_buffers();
  }

  // All replicas read the same parameters; the first one's gradients are the sums.
  Status bind(std::span<const nn::Binding> bindings) override {
    bindings_.assign(bindings.begin(), bindings.end());
    return threads_.run([&](std::uint32_t group) {
      std::vector<nn::Binding> own(bindings.begin(), bindings.end());
      for (KeyId key = 0; group > 0 && key < own.size(); ++key) {
        own[key].gradient = gradients_[group].of(key);
      }
      return replicas_[group]->bind(own);
    });
  }

  nn::FeatureMaps feature_maps() const override {
    nn::FeatureMaps all;
    for (const auto& replica : replicas_) {
      const nn::FeatureMaps one = replica->feature_maps();
      all.values += one.values;
      all.gradients += one.gradients;
      all.mapped += one.mapped;
    }
    return all;
  }

  std::uint32_t batch() const override { return first().batch() * groups(); }
  std::size_t input_elements() const override { return first().input_elements() * groups(); }
  std::size_t output_elements() const override { return first().output_elements() * groups(); }

  void set_noise(std::uint64_t noise) override {
    for (std::uint64_t group = 0; group < replicas_.size(); ++group) {
      replicas_[group]->set_noise(noise ^ (group * 0x9E3779B97F4A7C15U));
    }
  }

  Status load(std::span<const float> images, const nn::Labels& labels) override {
    return threads_.run([&](std::uint32_t group) {
      const std::size_t size = first().input_elements();
      const std::size_t batch = first().batch();
      return replicas_[group]->load(images.subspan(group * size, size),
                                    labels.part(group * batch, batch));
    });
  }

  Status forward(nn::Mode mode, nn::Hooks& hooks) override;
  Status read_output(std::span<float> host) override {
    return threads_.run([&](std::uint32_t group) {
      const std::size_t size = first().output_elements();
      return replicas_[group]->read_output(host.subspan(group * size, size));
    });
  }
  Status start_loss(const nn::LossOptions& options) override {
    nn::LossOptions part = options;
    part.gradient_scale /= groups();  // each averages over its own images
    return threads_.run([&](std::uint32_t group) { return replicas_[group]->start_loss(part); });
  }
  Status backward(nn::Hooks& hooks) override;

 private:
  class ForwardHooks;
  class BackwardHooks;

  const nn::Executor& first() const { return *replicas_.front(); }
  std::uint32_t groups() const { return static_cast<std::uint32_t>(replicas_.size()); }

  // Group 0's pass, or another's; who fails is not waited for.
  template <typename GroupHooks, typename Pass>
  Status pass(nn::Hooks& hooks, const Pass& run) {
    for (Progress& progress : progress_) progress.begin();
    return threads_.run([&](std::uint32_t group) {
      GroupHooks own(*this, group, hooks);
      Status ended = run(*replicas_[group], own);
      if (!ended.ok()) progress_[group].give_up();
      return ended;
    });
  }
  Status share_statistics();

  std::vector<std::unique_ptr<nn::Executor>> replicas_;
  std::vector<nn::Binding> bindings_;  // the caller's
  std::vector<KeyArrays> gradients_;   // by group; the first one's are not used
  std::vector<Progress> progress_;
  std::vector<nn::Loss> losses_;
  GroupThreads threads_;
};

// Parameters are there for the others when the caller's hook says so.
class ReplicaGroups::ForwardHooks : public nn::Hooks {
 public:
  ForwardHooks(ReplicaGroups& groups, std::uint32_t group, nn::Hooks& hooks)
      : groups_(groups), group_(group), hooks_(hooks) {}

  Status weights_needed(const nn::KeyRange& keys) override {
    ++layers_;
    if (group_ > 0) {
      return groups_.progress_.front().has_passed(layers_) ? Status() : another_failed();
    }
    PHUB_RETURN_IF_ERROR(hooks_.weights_needed(keys));
    groups_.progress_.front().pass();
    return {};
  }
  Status grad_ready(const nn::KeyRange& /*keys*/) override { return {}; }

 private:
  ReplicaGroups& groups_;
  std::uint32_t group_;
  nn::Hooks& hooks_;
  std::uint32_t layers_ = 0;
};

// The first group waits at each layer for the others, adds up and tells the caller.
class ReplicaGroups::BackwardHooks : public nn::Hooks {
 public:
  BackwardHooks(ReplicaGroups& groups, std::uint32_t group, nn::Hooks& hooks)
      : groups_(groups), group_(group), hooks_(hooks) {}

  Status weights_needed(const nn::KeyRange& /*keys*/) override { return {}; }
  Status loss_known(const nn::Loss& loss) override {
    groups_.losses_[group_] = loss;
    return {};
  }
  Status grad_ready(const nn::KeyRange& keys) override {
    ++layers_;
    if (group_ > 0) {
      groups_.progress_[group_].pass();
      return {};
    }
    for (std::uint32_t other = 1; other < groups_.groups(); ++other) {
      if (!groups_.progress_[other].has_passed(layers_)) return another_failed();
    }
    if (layers_ == 1) PHUB_RETURN_IF_ERROR(tell_loss());
    for (KeyId key = keys.first; key < keys.first + keys.count; ++key) add_up(key);
    return hooks_.grad_ready(keys);
  }

 private:
  Status tell_loss() {
    nn::Loss all;
    for (const nn::Loss& loss : groups_.losses_) {
      all.sum += loss.sum;
      all.correct += loss.correct;
    }
    return hooks_.loss_known(all);
  }

  void add_up(KeyId key) {
    const auto of = [&](std::uint32_t group) {
      return group == 0 ? groups_.bindings_[key].gradient : groups_.gradients_[group].of(key);
    };
    for (std::uint32_t apart = 1; apart < groups_.groups(); apart *= 2) {
      for (std::uint32_t to = 0; to + apart < groups_.groups(); to += 2 * apart) {
        kernels::add(of(to).data(), source_of(of(to)), source_of(of(to + apart)), of(to).size());
      }
    }
  }

  ReplicaGroups& groups_;
  std::uint32_t group_;
  nn::Hooks& hooks_;
  std::uint32_t layers_ = 0;
};

// Running statistics that are evaluated with are the first group's, as those that are saved.
Status ReplicaGroups::share_statistics() {
  PHUB_ASSIGN_OR_RETURN(const auto mine, replicas_.front()->read_buffers());
  for (std::size_t group = 1; group < replicas_.size(); ++group) {
    PHUB_ASSIGN_OR_RETURN(const auto theirs, replicas_[group]->read_buffers());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      std::ranges::copy(mine[i].values, theirs[i].values.begin());
    }
  }
  return {};
}

Status ReplicaGroups::forward(nn::Mode mode, nn::Hooks& hooks) {
  if (mode != nn::Mode::kTraining) PHUB_RETURN_IF_ERROR(share_statistics());
  return pass<ForwardHooks>(
      hooks, [mode](nn::Executor& replica, nn::Hooks& own) { return replica.forward(mode, own); });
}

Status ReplicaGroups::backward(nn::Hooks& hooks) {
  return pass<BackwardHooks>(
      hooks, [](nn::Executor& replica, nn::Hooks& own) { return replica.backward(own); });
}

}  // namespace

Result<std::unique_ptr<nn::Executor>> make_replica_groups(const nn::Graph& graph,
                                                          const ExecutorOptions& options) {
  ExecutorOptions each = options;
  each.groups = 1;
  each.batch = options.batch / options.groups;
  auto groups = std::make_unique<ReplicaGroups>(options.groups);
  PHUB_RETURN_IF_ERROR(groups->make_replicas(graph, each));
  return std::unique_ptr<nn::Executor>(std::move(groups));
}

}  // namespace phub::train
