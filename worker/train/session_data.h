// Opens the data of a session, and checks that its network can take it. At set-up; the trainer's
// thread.
#pragma once

#include "common/base/status.h"
#include "worker/data/images.h"
#include "worker/train/session.h"

namespace phub::train {

// Errors name the field and the cure.
Result<data::ImageSets> load_data(const SessionOptions& options, const nn::Graph& graph);

// Whether the network takes such images and ends in as many classes.
Status check_fit(const SessionOptions& options, const nn::Graph& graph,
                 const data::ImageFacts& facts);

}  // namespace phub::train
