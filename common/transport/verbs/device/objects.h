// libibverbs objects that destroy themselves. An object must outlive those made from it: declare a
// context before its domain, a domain before its registrations and queue pairs.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

namespace phub::transport::verbs {

template <auto kDestroy>
struct Destroy {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};

using DeviceList = std::unique_ptr<ibv_device*, Destroy<ibv_free_device_list>>;
using Context = std::unique_ptr<ibv_context, Destroy<ibv_close_device>>;
using Domain = std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>>;
using Registration = std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Destroy<ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>>;

}  // namespace phub::transport::verbs
