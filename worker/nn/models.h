// The networks that phub-worker can train, by name.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/status.h"
#include "worker/nn/graph.h"

namespace phub::nn {

// LeNet-5 as Caffe trains it (LeCun et al. 1998, with 20, 50 and 500 units): 28 x 28 grey images,
// 431,080 parameters for 10 classes.
Graph lenet(std::uint32_t classes);

// ResNet-20 for 32 x 32 colour images (He et al. 2016, section 4.2) with its parameter-free
// shortcuts (option A): 269,722 parameters for 10 classes, batch normalisation included. (With
// projections, option B, it would have 272,474.)
Graph resnet20(std::uint32_t classes);

// Errors: kInvalidArgument names the models there are.
Result<Graph> make_model(std::string_view name, std::uint32_t classes);

}  // namespace phub::nn
