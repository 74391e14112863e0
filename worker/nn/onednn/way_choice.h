// Plans of the ways to compute a pass, and the choice among them.
//
// Functions of the backend's thread; they throw dnnl::error (see primitives.h).
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/nn/onednn/library_way.h"

namespace phub::nn::onednn {

// A way that can be made, and what the book is to know of it.
struct WayPlan {
  OfferedKernel kernel;  // without `prepare`
  // Of the library's.
  std::string implementation{};
  std::vector<dnnl::memory::desc> layouts{};
  std::function<std::unique_ptr<ComputeWay>(OpScratch& room)> make;
};

// A layout that implementations of oneDNN are asked for in.
struct AskedLayout {
  std::string name;         // "nhwc"
  bool is_blocked = false;  // oneDNN was free to choose
};

// Adds a plan that cannot be made yet. False where there is none: the implementation is for
// processors without AVX2, three to ten times slower on those that have it; or asking for another
// layout gave the same.
bool add_plan(const std::string& implementation, const LibraryWay::Arguments& arguments,
              const AskedLayout& layout, const OnednnContext& context, std::vector<WayPlan>& plans);

// Adds all implementations of `desc`. The descriptor of the operation, to which oneDNN's iterator
// points, outlives the call.
template <typename Primitive, typename ArgumentsOf>
void add_library(typename Primitive::primitive_desc desc, const AskedLayout& layout,
                 ArgumentsOf arguments_of, const OnednnContext& context,
                 std::vector<WayPlan>& plans) {
  if (!desc) return;
  do {
    const LibraryWay::Arguments arguments = arguments_of(desc);
    if (!add_plan(desc.impl_info_str(), arguments, layout, context, plans)) continue;
    plans.back().make = [desc, arguments,
                         &context](OpScratch& room) -> std::unique_ptr<ComputeWay> {
      return std::make_unique<LibraryWay>(Primitive(desc), arguments, room, context);
    };
  } while (desc.next_impl());
}

// The one that the context's book chooses, made. `parameters`: the layer's, in the exchange's
// layouts. REQUIRES: at least one plan; the first is the library's for memory as it is.
std::unique_ptr<ComputeWay> choose_way(const std::string& operation, std::vector<WayPlan> plans,
                                       const std::vector<dnnl::memory::desc>& parameters,
                                       OnednnContext& context);

}  // namespace phub::nn::onednn
