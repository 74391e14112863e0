#include "bench/memory/aggregation.h"

#include <algorithm>
#include <cstring>

#include "bench/base/pattern.h"
#include "bench/memory/roof.h"
#include "kernels/reduce.h"

namespace phub::bench {
namespace {

constexpr std::uint64_t kElementsPerKib = 1024 / sizeof(float);
constexpr Hyper kHyper{.learning_rate = 1e-3F, .momentum = 0.9F, .gradient_scale = 0.25F};

kernels::Source source_at(std::span<const float> array, std::uint64_t first) {
  return {reinterpret_cast<const std::byte*>(array.data() + first), DataType::kFloat32};
}

}  // namespace

Aggregation::Aggregation(const AggregateOptions& options, std::vector<std::uint64_t> keys)
    : options_(options),
      adaptive_(kernels::adaptive_step(options.rule, {.epsilon = default_epsilon(options.rule)},
                                       kHyper.learning_rate, 0)),
      keys_(std::move(keys)) {}

Result<std::unique_ptr<Aggregation>> Aggregation::create(const AggregateOptions& options,
                                                         std::vector<std::uint64_t> keys) {
  std::unique_ptr<Aggregation> made(new Aggregation(options, std::move(keys)));
  const std::uint64_t page = page_bytes() / sizeof(float);
  made->stride_ = (options.elements + page - 1) / page * page + kLine;
  const std::uint64_t arrays = options.workers + 2 + std::max(1U, state_arrays(options.rule));
  PHUB_ASSIGN_OR_RETURN(made->memory_, Mapping::anonymous(arrays * made->stride_ * sizeof(float)));
  const Pattern pattern{pattern_modulus(DataType::kFloat32, options.workers), 1};
  for (unsigned worker = 0; worker < options.workers; ++worker) {
    fill_pattern(made->array(worker), pattern, worker, 0);
  }
  std::ranges::fill(made->array(options.workers + 1), 0.0F);
  made->reset();
  PHUB_ASSIGN_OR_RETURN(made->team_, Team::create(options.threads));
  return made;
}

std::span<float> Aggregation::array(unsigned index) const {
  return {reinterpret_cast<float*>(memory_->data()) + index * stride_, options_.elements};
}

void Aggregation::reset() {
  std::ranges::fill(array(options_.workers), 1.0F);
  for (unsigned state = 0; state < state_arrays(options_.rule); ++state) {
    std::ranges::fill(array(options_.workers + 2 + state), 0.0F);
  }
}

void Aggregation::run(bool tall, bool fused) {
  team_->run([=, this](unsigned member) {
    if (tall) {
      run_tall(fused, member);
    } else {
      run_wide(fused, member);
    }
  });
}

void Aggregation::run_roof() {
  team_->run([this](unsigned member) {
    const std::uint64_t lines = (options_.elements + kLine - 1) / kLine;
    const std::uint64_t first = lines * member / team_->size() * kLine;
    const std::uint64_t last =
        std::min(options_.elements, lines * (member + 1) / team_->size() * kLine);
    if (first >= last) return;
    std::vector<const float*> sources;
    for (unsigned w = 0; w < options_.workers; ++w) sources.push_back(array(w).data() + first);
    float* const out = array(options_.workers).data() + first;
    float* const state = array(options_.workers + 2).data() + first;
    const std::size_t length = last - first;
    switch (update_pass(state_arrays(options_.rule))) {
      case RoofPass::kUpdate:
        return roof_update(out, state, sources.data(), options_.workers, length);
      case RoofPass::kMoments:
        return roof_moments(out, state, state + stride_, sources.data(), options_.workers, length);
      default:
        return roof_sum(out, sources.data(), options_.workers, length);
    }
  });
}

void Aggregation::run_tall(bool fused, unsigned member) {
  const std::uint64_t chunk = options_.chunk_kib * kElementsPerKib;
  const std::uint64_t chunks = (options_.elements + chunk - 1) / chunk;
  const std::uint64_t last = chunks * (member + 1) / team_->size();
  for (std::uint64_t c = chunks * member / team_->size(); c < last; ++c) {
    aggregate(fused, c * chunk, std::min(chunk, options_.elements - c * chunk));
  }
}

void Aggregation::run_wide(bool fused, unsigned member) {
  std::uint64_t key_start = 0;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t lines = (key + kLine - 1) / kLine;
    const std::uint64_t first = std::min(key, lines * member / team_->size() * kLine);
    const std::uint64_t last = std::min(key, lines * (member + 1) / team_->size() * kLine);
    if (first < last) aggregate(fused, key_start + first, last - first);
    key_start += key;
    team_->meet();
  }
}

void Aggregation::aggregate(bool fused, std::uint64_t first, std::uint64_t elements) {
  std::vector<kernels::Source> sources;
  for (unsigned worker = 0; worker < options_.workers; ++worker) {
    sources.push_back(source_at(array(worker), first));
  }
  if (!fused) {
    float* sum = array(options_.workers + 1).data() + first;
    std::memcpy(sum, sources[0].data, elements * sizeof(float));
    const kernels::Source running{reinterpret_cast<const std::byte*>(sum), DataType::kFloat32};
    for (unsigned worker = 1; worker < options_.workers; ++worker) {
      kernels::add(sum, running, sources[worker], elements);
    }
    sources.assign(1, running);
  }
  const bool stateful = state_arrays(options_.rule) > 0;
  kernels::update({.sources = sources,
                   .elements = elements,
                   .rule = options_.rule,
                   .hyper = kHyper,
                   .adaptive = &adaptive_,
                   .parameters = array(options_.workers).data() + first,
                   .state = stateful ? array(options_.workers + 2).data() + first : nullptr,
                   .state_stride = stride_});
}

}  // namespace phub::bench
