#include "server/directory/directory.h"

#include <algorithm>
#include <utility>

namespace phub::server {
namespace {

// What the configuration lists; it never changes.
class StaticDirectory final : public Directory {
 public:
  explicit StaticDirectory(const DirectoryOptions& options)
      : Directory(options), racks_(sorted(options.racks)) {}

  std::vector<RackEntry> racks() const override { return racks_; }
  void on_change(std::function<void()> /*changed*/) override {}
  std::string source() const override { return "configuration"; }

 private:
  static std::vector<RackEntry> sorted(std::vector<RackEntry> racks) {
    std::sort(racks.begin(), racks.end(),
              [](const RackEntry& a, const RackEntry& b) { return a.name < b.name; });
    return racks;
  }

  const std::vector<RackEntry> racks_;
};

}  // namespace

Result<std::unique_ptr<Directory>> Directory::create(const DirectoryOptions& options) {
  return std::unique_ptr<Directory>(std::make_unique<StaticDirectory>(options));
}

}  // namespace phub::server
