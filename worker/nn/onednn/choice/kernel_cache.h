// Which implementation was fastest for an operation, remembered in a file between runs.
//
// Readable text: the line {"phub_kernels": 1}, then one JSON object a line:
//
//   {"processor": "vendor_id GenuineIntel, cpu family 6, ..", "isa": "avx512_core",
//    "onednn": "2.6.3", "threads": 2, "operation": "forward bf16 ..", "kernel": "own",
//    "microseconds": {"nhwc jit:avx512_core": 812.5, "own": 640.1}}
//
// Lines of other processors, instruction sets, versions and numbers of threads are kept and not
// used. A file may be shared by runs that go on at the same time: it is replaced whole, under a
// lock (FILE.lock), and the first choice for an operation stays. So a run that is repeated, or
// resumed, with the same file computes the same bits; editing "kernel" by hand forces a choice.
//
// Lines that are no such object are left out with one note. A file whose first line is another one
// is somebody else's: it is not used and not written. Owned by the backend; one thread.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "worker/nn/kernel_choice.h"

namespace phub::nn::onednn {

// What choices are good for.
struct KernelScope {
  std::string processor;
  std::string isa;
  std::string onednn;
  unsigned threads = 1;

  auto operator<=>(const KernelScope&) const = default;
};

class KernelCache {
 public:
  using Note = std::function<void(std::string_view)>;

  // Reads the file, if there is one.
  KernelCache(std::filesystem::path file, KernelScope scope, Note note);

  std::optional<KernelChoice> find(const std::string& operation) const;
  // Remembers a choice, also in the file, beside what others have written there by now. Returns the
  // one that counts: the file's, if another run was there before, unless this one is to replace it.
  KernelChoice add(const KernelChoice& choice, bool replaces = false);

  // Held while an operation is measured, so that runs on a machine measure in turn. After a minute,
  // or where there can be no lock, nothing is held. Reads the file again.
  UniqueFd lock();

 private:
  using Key = std::pair<KernelScope, std::string>;

  void read();
  void read_line(const std::string& line);
  Status write() const;
  void tell_once(std::string_view what);

  std::filesystem::path file_;
  KernelScope scope_;
  Note note_;
  bool is_foreign_ = false;
  bool told_ = false;
  std::map<Key, KernelChoice> choices_;
};

}  // namespace phub::nn::onednn
