// How two images of a batch are mixed (mixup: Zhang et al., arXiv 1710.09412).
//
// Shares are whole numbers of 1 / kWhole, and pixels are mixed in integers. So pixels and labels
// have the same share, and every machine makes the same bytes. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "common/samples/random.h"

namespace phub::data {

// What an image of a pair keeps of itself, from kWhole / 2 to kWhole. The rest is the other's.
using MixShare = std::uint32_t;
inline constexpr MixShare kWhole = 1U << 16U;

// max(l, 1 - l), where l has the distribution Beta(alpha, alpha). The method is that of Jöhnk,
// "Erzeugung von betaverteilten und gammaverteilten Zufallszahlen", Metrika 8, 1964. It takes 2
// tries on average for an alpha of 1, and 70 for 4. REQUIRES: alpha > 0.
MixShare draw_share(float alpha, CounterRandom random);

// Both become a mix: each keeps `share` of itself, and gets the rest from the other. Values are
// rounded to the nearest. REQUIRES: equal sizes; share <= kWhole.
void mix_pair(std::span<std::uint8_t> one, std::span<std::uint8_t> other, MixShare share);

}  // namespace phub::data
