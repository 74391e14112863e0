#include "worker/data/feed/mixing.h"

#include <cmath>
#include <cstddef>

#include "common/base/check.h"

namespace phub::data {
namespace {

// The logarithm of a uniform number in (0, 1].
double log_uniform(CounterRandom& random) {
  return std::log(static_cast<double>((random.next() >> 11U) + 1) * 0x1p-53);
}

}  // namespace

// Where x = u^(1 / alpha) and y = v^(1 / alpha) have a sum of at most 1, x / (x + y) has the
// distribution. Logarithms are kept: for a small alpha the powers would be 0.
MixShare draw_share(float alpha, CounterRandom random) {
  PHUB_DCHECK(alpha > 0.0F, "a distribution");
  const auto exponent = static_cast<double>(alpha);
  while (true) {
    const double x = log_uniform(random) / exponent;
    const double y = log_uniform(random) / exponent;
    if (std::exp(x) + std::exp(y) > 1.0) continue;
    const double larger = 1.0 / (1.0 + std::exp(-std::abs(x - y)));
    return static_cast<MixShare>(std::lround(larger * double{kWhole}));
  }
}

void mix_pair(std::span<std::uint8_t> one, std::span<std::uint8_t> other, MixShare share) {
  PHUB_CHECK(one.size() == other.size(), "images of one size");
  const std::uint32_t rest = kWhole - share;
  const auto mixed = [](std::uint32_t sum) {
    return static_cast<std::uint8_t>((sum + kWhole / 2) / kWhole);
  };
  for (std::size_t i = 0; i < one.size(); ++i) {
    const std::uint32_t a = one[i], b = other[i];
    one[i] = mixed(share * a + rest * b);
    other[i] = mixed(share * b + rest * a);
  }
}

}  // namespace phub::data
