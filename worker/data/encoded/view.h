// Which part of an image a network sees, and in which colours.
//
// Pure functions; any thread. The same random numbers give the same view.
#pragma once

#include <cstdint>
#include <span>

#include "common/samples/random.h"
#include "worker/data/images/geometry.h"

namespace phub::data {

struct ViewOptions {
  // A training's: of the image's area at least so much (1: what a test sees), stretched at most by
  // this factor in one direction.
  double min_area = 0.08;
  double stretch = 4.0 / 3.0;
  double test = 0.875;  // a test's: share of the largest part that has the output's shape
  // Each factor of a training's colours is uniform in [1 - x, 1 + x].
  float brightness = 0.0F;
  float contrast = 0.0F;
  float saturation = 0.0F;

  bool has_jitter() const { return brightness > 0.0F || contrast > 0.0F || saturation > 0.0F; }
};

// The centre, in the shape of `out`.
Window test_window(const ViewOptions& options, ImageSize image, ImageSize out);

// A random part (Szegedy et al., "Going deeper with convolutions", 2015). Where ten draws do not
// fit into the image, the largest part in the shape of `out`.
Window training_window(const ViewOptions& options, ImageSize image, ImageSize out,
                       CounterRandom& random);

// Changes brightness, then contrast around the mean grey, then saturation around each pixel's grey.
// `pixels`: [pixel][channel] of 1 or 3 channels.
void change_colours(const ViewOptions& options, std::uint32_t channels,
                    std::span<std::uint8_t> pixels, CounterRandom& random);

}  // namespace phub::data
