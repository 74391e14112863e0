// The data of a session, read or made and checked against the network that is to see it, and that
// network, runnable.
#pragma once

#include "common/base/status.h"
#include "worker/data/dataset.h"
#include "worker/train/session.h"

namespace phub::train {

// Errors name the field and the cure.
Result<data::Datasets> load_data(const SessionOptions& options, const nn::Graph& graph);

// Whether the network takes such images and ends in as many classes.
Status check_fit(const SessionOptions& options, const nn::Graph& graph,
                 const data::Dataset& dataset);

}  // namespace phub::train
