#include "bench/memory/roof.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "kernels/reduce.h"

namespace phub::bench {
namespace {

// An array's length in memory, so that each starts on its own page.
std::uint64_t padded(std::uint64_t elements) {
  const std::uint64_t page = page_bytes() / sizeof(float);
  // One more line for each array keeps the streams off each other's cache sets.
  return (elements + page - 1) / page * page + kLine;
}

}  // namespace

Result<std::unique_ptr<Roof>> Roof::create(const RoofOptions& options) {
  if (options.workers == 0 || options.workers > kernels::kMaxSources || options.elements == 0) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("the roof needs 1 to {} workers and at least 1 element", kernels::kMaxSources));
  }
  std::unique_ptr<Roof> roof(new Roof(options));
  const std::uint64_t arrays = options.workers + 1 + options.states;
  PHUB_ASSIGN_OR_RETURN(roof->memory_,
                        Mapping::anonymous(arrays * padded(options.elements) * sizeof(float)));
  // Every page is touched here, not in the first pass.
  std::fill_n(reinterpret_cast<float*>(roof->memory_->data()), arrays * padded(options.elements),
              1.0F);
  PHUB_ASSIGN_OR_RETURN(roof->team_, Team::create(options.threads));
  return roof;
}

std::span<float> Roof::array(unsigned index) const {
  float* base = reinterpret_cast<float*>(memory_->data());
  return {base + index * padded(options_.elements), options_.elements};
}

void Roof::run(RoofPass pass) {
  team_->run([this, pass](unsigned member) { share(pass, member); });
}

void Roof::share(RoofPass pass, unsigned member) {
  const std::uint64_t lines = (options_.elements + kLine - 1) / kLine;
  const std::uint64_t first = lines * member / options_.threads * kLine;
  const std::uint64_t last =
      std::min(options_.elements, lines * (member + 1) / options_.threads * kLine);
  if (first >= last) return;
  const std::size_t length = last - first;
  std::vector<const float*> sources;
  for (unsigned w = 0; w < options_.workers; ++w) sources.push_back(array(w).data() + first);
  float* out = output().data() + first;
  switch (pass) {
    case RoofPass::kSum:
      roof_sum(out, sources.data(), options_.workers, length);
      break;
    case RoofPass::kUpdate: {
      float* state = array(options_.workers + 1).data() + first;
      roof_update(out, state, sources.data(), options_.workers, length);
      break;
    }
    case RoofPass::kMoments: {
      float* means = array(options_.workers + 1).data() + first;
      float* squares = array(options_.workers + 2).data() + first;
      roof_moments(out, means, squares, sources.data(), options_.workers, length);
      break;
    }
    case RoofPass::kCopy:
      roof_copy(out, sources[0], length);
      break;
    case RoofPass::kTriad:
      roof_triad(out, sources[0], sources[std::min(1U, options_.workers - 1)], length);
      break;
  }
}

Status Roof::fill(std::uint32_t round) {
  for (std::uint32_t worker = 0; worker < options_.workers; ++worker) {
    fill_pattern(array(worker), pattern(round), worker, 0);
  }
  return {};
}

Status Roof::iterate() {
  run(update_pass(options_.states));
  return {};
}

Result<std::uint64_t> Roof::verify(std::uint32_t round) {
  PHUB_RETURN_IF_ERROR(fill(round));
  run(RoofPass::kSum);
  if (const auto wrong = first_wrong_sum(output(), pattern(round), options_.workers, 0)) {
    return Status(Code::kDataLoss, fmt::format("wrong sum at element {}", *wrong));
  }
  return checksum(output(), 0);
}

Status run_roof_worker(const WorkerHello& hello, const Work& work) {
  RoofOptions options;
  options.workers = work.workers;
  options.elements = work.elements;
  options.threads =
      std::min(work.server_cores * work.servers, std::max(1U, std::thread::hardware_concurrency()));
  options.states = state_arrays(work.rule);
  const auto roof = Roof::create(options);
  return roof ? serve(hello, **roof) : tell(hello, roof.error());
}

}  // namespace phub::bench
