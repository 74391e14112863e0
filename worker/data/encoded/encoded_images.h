// A set of encoded images as a network takes them: each is read, decoded, cropped and resized when
// it is asked for.
//
// Any thread may call what it returns, as images.h says. Another image takes the place of a damaged
// one: the same one in each epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "worker/data/encoded/decoded_images.h"
#include "worker/data/encoded/view.h"
#include "worker/data/formats/sample_set.h"
#include "worker/data/images.h"

namespace phub::data {

struct EncodedOptions {
  ImageFacts facts;  // what the network takes: 1 or 3 channels; classes are the set's
  ViewOptions view = {};
  std::uint64_t damaged_max = 0;
  std::function<void(std::string_view)> note = {};  // of damaged images; by one thread at a time
  std::shared_ptr<DecodedImages> decoded = {};      // of the set; null: each image is decoded anew
};

std::unique_ptr<Images> encoded_images(std::unique_ptr<SampleSet> set, EncodedOptions options);

}  // namespace phub::data
