#include "bench/base/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace phub::bench {
namespace {

constexpr std::uint64_t kAutomaticThreshold = 1'000'000;

void append_convolution(std::vector<std::uint64_t>& keys, std::uint64_t in, std::uint64_t out,
                        std::uint64_t kernel) {
  keys.push_back(in * out * kernel * kernel);
  keys.push_back(out);  // scale of the batch normalisation that follows
  keys.push_back(out);  // its shift
}

std::vector<std::uint64_t> scale(std::vector<std::uint64_t> keys, std::uint64_t elements) {
  const double share = static_cast<double>(elements) / static_cast<double>(kResnet50Elements);
  std::uint64_t total = 0;
  for (auto& key : keys) {
    key = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(key) * share));
    total += key;
  }
  // Rounding down leaves a remainder, the floor of one element may take too much: the largest
  // keys settle it.
  while (total != elements) {
    auto largest = std::max_element(keys.begin(), keys.end());
    if (total < elements) {
      *largest += elements - total;
      total = elements;
    } else {
      const std::uint64_t taken = std::min(*largest / 2, total - elements);
      *largest -= taken;
      total -= taken;
    }
  }
  return keys;
}

std::vector<std::uint64_t> equal(std::uint64_t count, std::uint64_t elements) {
  std::vector<std::uint64_t> keys(count, elements / count);
  for (std::uint64_t i = 0; i < elements % count; ++i) ++keys[i];
  return keys;
}

}  // namespace

std::vector<std::uint64_t> resnet50_keys() {
  constexpr std::array<int, 4> kBlocks = {3, 4, 6, 3};
  constexpr std::uint64_t kExpansion = 4;
  std::vector<std::uint64_t> keys;
  append_convolution(keys, 3, 64, 7);
  std::uint64_t in = 64;
  std::uint64_t width = 64;
  for (const int blocks : kBlocks) {
    for (int block = 0; block < blocks; ++block) {
      append_convolution(keys, in, width, 1);
      append_convolution(keys, width, width, 3);
      append_convolution(keys, width, width * kExpansion, 1);
      if (block == 0) append_convolution(keys, in, width * kExpansion, 1);  // projection shortcut
      in = width * kExpansion;
    }
    width *= 2;
  }
  constexpr std::uint64_t kClasses = 1000;
  keys.push_back(in * kClasses);
  keys.push_back(kClasses);
  return keys;
}

Result<std::vector<std::uint64_t>> make_keys(std::string_view how, std::uint64_t elements) {
  if (elements == 0) return Status(Code::kInvalidArgument, "--elements must be at least 1");
  if (how == "auto") how = elements >= kAutomaticThreshold ? "resnet50" : "one";
  if (how == "one") return std::vector<std::uint64_t>{elements};
  if (how == "resnet50") {
    std::vector<std::uint64_t> keys = resnet50_keys();
    if (elements < keys.size()) {
      return Status(Code::kInvalidArgument,
                    fmt::format("--keys resnet50 needs --elements of at least {}", keys.size()));
    }
    return elements == kResnet50Elements ? keys : scale(std::move(keys), elements);
  }
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(how.data(), how.data() + how.size(), count);
  if (error != std::errc{} || end != how.data() + how.size() || count == 0 || count > elements) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("--keys {}: use resnet50, one, auto, or a number from 1 to --elements", how));
  }
  return equal(count, elements);
}

}  // namespace phub::bench
