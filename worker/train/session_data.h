// Opens the data of a session, and checks that its network can take it. At set-up; the trainer's
// thread.
#pragma once

#include <functional>
#include <memory>

#include "common/base/status.h"
#include "worker/data/formats/sample_set.h"
#include "worker/data/images.h"
#include "worker/data/spread/spread_set.h"
#include "worker/train/session.h"

namespace phub::train {

using IsStopped = std::function<bool()>;

// Errors name the field and the cure; kAborted when `stopped` says so while shards are opened.
// `spread`: becomes the training set where the workers are to hold it together, which needs its
// place before it is read; null: nobody is to hold any.
Result<data::ImageSets> load_data(const SessionOptions& options, const nn::Graph& graph,
                                  data::SpreadSet** spread = nullptr,
                                  const IsStopped& stopped = {});

// The encoded images of a split, from their copies where the session keeps some. REQUIRES:
// is_encoded(options.data.format).
Result<std::unique_ptr<data::SampleSet>> open_encoded_set(const SessionOptions& options,
                                                          data::Split split);

// Whether the network takes such images and ends in as many classes.
Status check_fit(const SessionOptions& options, const nn::Graph& graph,
                 const data::ImageFacts& facts);

}  // namespace phub::train
