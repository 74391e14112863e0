#include "server/chunks/pushes/push_sums.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/protocol/sparse_push.h"
#include "kernels/quantise.h"
#include "kernels/sparse.h"

namespace phub::server {

using kernels::Source;

namespace {

// Adds a packed push to the fp32 sum.
void unpack(const Pushers& pushers, const std::byte* push, float* sum, std::uint32_t elements) {
  if (pushers.encoding == Encoding::kSparse) {
    const wire::SparsePush some = wire::sparse_at(push);
    kernels::scatter_add(sum, some.indices, {some.values, pushers.type}, some.count);
  } else {
    kernels::add_quantised({sum, elements}, push, kernels::bits_of(pushers.encoding));
  }
}

// Writes all elements of a push to `wide` as fp32.
void widen(const Pushers& pushers, const Contribution& push, std::byte* wide,
           std::uint32_t elements) {
  if (!push.packed) {
    return kernels::convert(wide, DataType::kFloat32, push.data, pushers.type, elements);
  }
  std::memset(wide, 0, elements * sizeof(float));
  unpack(pushers, push.data, reinterpret_cast<float*>(wide), elements);
}

}  // namespace

bool PushSums::add(std::uint32_t slot, std::uint32_t position, const Contribution& push,
                   ChunkSum& sum, std::uint32_t elements) {
  Contribution* const contributions = pushes_.of(slot);
  contributions[place_of(position, sum)] = push;
  ++sum.pushes;
  if (sum.pushes < sum.members) {
    if (push.staged) fold(slot, sum, elements);  // what stays in place lets no other go on
    if (sum.members > kernels::kMaxSources) fold_in_place(slot, sum, elements);
    return false;
  }
  if (sum.members > kernels::kMaxSources) fold_many(slot, sum, elements);
  return true;
}

bool PushSums::add_folded(std::uint32_t slot, std::uint32_t position, const Contribution& push,
                          ChunkSum& sum, std::uint32_t elements) {
  Contribution* const contributions = pushes_.of(slot);
  contributions[place_of(position, sum)] = push;
  ++sum.pushes;
  for (; sum.folded < sum.members && contributions[sum.folded].data != nullptr; ++sum.folded) {
    Contribution& next = contributions[sum.folded];
    add_to_sum(next, sum, elements);
    if (next.staged) staging_.give(next.data);
    next = {};
  }
  return sum.pushes == sum.members;
}

// REQUIRES: the sum is fp32, or there is none. The first push's elements become the sum as they
// are, as in a dense sum.
void PushSums::add_to_sum(const Contribution& push, ChunkSum& sum, std::uint32_t elements) {
  if (sum.data == nullptr) {
    sum.data = staging_.take();
    return widen(pushers_, push, sum.data, elements);
  }
  auto* const floats = reinterpret_cast<float*>(sum.data);
  if (push.packed) return unpack(pushers_, push.data, floats, elements);
  kernels::add(floats, {sum.data, DataType::kFloat32}, {push.data, pushers_.type}, elements);
}

void PushSums::add_weighted(std::uint32_t slot, const Contribution& push, float weight,
                            ChunkSum& sum, std::uint32_t elements) {
  if (weight == 1.0F && !push.packed) {
    pushes_.of(slot)[sum.pushes++] = push;
    return;
  }
  fold_all(slot, sum, elements);
  weight == 1.0F ? add_to_sum(push, sum, elements) : add_scaled(push, weight, sum, elements);
  if (push.staged && push.data != sum.data) staging_.give(push.data);
  ++sum.pushes;
  ++sum.folded;
}

void PushSums::add_scaled(const Contribution& push, float weight, ChunkSum& sum,
                          std::uint32_t elements) {
  const bool is_wide = push.staged && !push.packed && pushers_.type == DataType::kFloat32;
  std::byte* const wide = is_wide ? push.data : staging_.take();
  if (push.packed) widen(pushers_, push, wide, elements);
  const Source source =
      push.packed ? Source{wide, DataType::kFloat32} : Source{push.data, pushers_.type};
  kernels::update({.sources = {&source, 1},
                   .elements = elements,
                   .rule = RuleKind::kMean,
                   .hyper = {.gradient_scale = weight},
                   .parameters = reinterpret_cast<float*>(wide)});
  if (sum.data != nullptr) {
    kernels::add(reinterpret_cast<float*>(wide), {wide, DataType::kFloat32}, {sum.data, sum.type},
                 elements);
  }
  replace(sum, wide);
}

// Adds the staged contributions that are next in order to the sum, while they are hot.
void PushSums::fold(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements) {
  Contribution* const contributions = pushes_.of(slot);
  while (sum.folded < sum.members) {
    Contribution& next = contributions[sum.folded];
    if (next.data == nullptr || !next.staged) return;
    if (sum.folded == 0) {
      if (watch_ != nullptr) look_at(slot, 0, elements);  // its buffer becomes the sum
      sum.data = next.data;
      sum.type = pushers_.type;
    } else {
      std::byte* const wide = sum.type == DataType::kFloat32 ? sum.data : staging_.take();
      add_next(slot, wide, sum, elements);
      staging_.give(next.data);
      replace(sum, wide);
    }
    next = {};
    ++sum.folded;
  }
}

// Adds the next contribution to the sum and writes the result to `wide`. The pushes in the sum were
// checked before. So if the result is not finite, only the next push is checked.
void PushSums::add_next(std::uint32_t slot, std::byte* wide, const ChunkSum& sum,
                        std::uint32_t elements) {
  const std::array<Source, 2> both = {
      {{sum.data, sum.type}, {pushes_.of(slot)[sum.folded].data, pushers_.type}}};
  auto* const to = reinterpret_cast<float*>(wide);
  if (watch_ == nullptr) return kernels::add(to, both[0], both[1], elements);
  const bool is_finite =
      kernels::update_and_look({.sources = both, .elements = elements, .parameters = to});
  if (!is_finite) look_at(slot, sum.folded, elements);
}

// Adds up pushes in place as soon as kAtOnce of them follow each other, in a job with more workers
// than the kernels take sources. Otherwise the last push would bring the work of all of them.
void PushSums::fold_in_place(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements) {
  constexpr std::uint32_t kAtOnce = kernels::kMaxSources / 2;
  if (sum.members - sum.folded < kAtOnce) return;
  const Contribution* const first = pushes_.of(slot) + sum.folded;
  const bool are_there = std::all_of(first, first + kAtOnce,
                                     [](const Contribution& push) { return push.data != nullptr; });
  if (are_there) add_up(slot, sum, elements, kAtOnce);
}

// Adds up pushes until the kernels can take the rest as sources.
void PushSums::fold_many(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements) {
  while (sum.members - sum.folded + 1 > kernels::kMaxSources) {
    add_up(slot, sum, elements, static_cast<std::uint32_t>(kernels::kMaxSources - 1));
  }
}

// Adds the next `count` contributions to the chunk's sum, which is fp32 then. They are added in
// their order, so the sum has the bits of one pass over all. REQUIRES: they are there; with the sum
// they are at most kMaxSources.
void PushSums::add_up(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements,
                      std::uint32_t count) {
  Contribution* const contributions = pushes_.of(slot);
  std::array<Source, kernels::kMaxSources> sources;  // NOLINT(*-member-init): filled below
  const std::size_t filled = sources_of(sum, contributions, sum.folded + count, 0, sources);
  Contribution& first = contributions[sum.folded];
  std::byte* wide = nullptr;
  if (sum.data != nullptr && sum.type == DataType::kFloat32) {
    wide = sum.data;
  } else if (sum.data == nullptr && first.staged && pushers_.type == DataType::kFloat32) {
    if (watch_ != nullptr) look_at(slot, sum.folded, elements);  // before it is another
    wide = first.data;
    first.staged = false;  // stays in use, as the sum
  } else {
    wide = staging_.take();
  }
  if (filled > 1 || wide != sources[0].data) {
    const kernels::Update all{.sources = {sources.data(), filled},
                              .elements = elements,
                              .parameters = reinterpret_cast<float*>(wide)};
    if (watch_ == nullptr) {
      kernels::update(all);
    } else if (!kernels::update_and_look(all)) {
      for (std::uint32_t i = sum.folded; i < sum.folded + count; ++i) {
        if (contributions[i].data != wide) look_at(slot, i, elements);
      }
    }
  }
  replace(sum, wide);
  for (; count > 0; --count, ++sum.folded) {
    Contribution& added = contributions[sum.folded];
    if (added.staged) staging_.give(added.data);
    added = {};
  }
}

void PushSums::look_at(std::uint32_t slot, std::uint32_t index, std::uint32_t elements) {
  watch_->look_at({slot, pushes_.worker_of(slot, index)},
                  {pushes_.of(slot)[index].data, pushers_.type}, elements);
}

void PushSums::replace(ChunkSum& sum, std::byte* wide) {
  if (sum.data != nullptr && sum.data != wide) staging_.give(sum.data);
  sum.data = wide;
  sum.type = DataType::kFloat32;
}

// The sources are the sum and the contributions before `end`.
std::size_t PushSums::sources_of(const ChunkSum& sum, const Contribution* contributions,
                                 std::uint32_t end, std::uint32_t offset,
                                 std::span<Source> sources) const {
  std::size_t count = 0;
  if (sum.data != nullptr) {
    sources[count++] = {sum.data + offset * size_of(sum.type), sum.type};
  }
  for (std::uint32_t i = sum.folded; i < end; ++i) {
    sources[count++] = {contributions[i].data + offset * size_of(pushers_.type), pushers_.type};
  }
  return count;
}

void PushSums::clear(std::uint32_t slot, ChunkSum& sum) {
  if (sum.data != nullptr) staging_.give(sum.data);
  Contribution* const contributions = pushes_.of(slot);
  for (std::uint32_t i = sum.folded; i < sum.pushes; ++i) {
    if (contributions[i].staged) staging_.give(contributions[i].data);
    contributions[i] = {};
  }
  sum.clear();
}

}  // namespace phub::server
