#include "server/directory/directory.h"

#include <algorithm>
#include <utility>

#include "server/directory/etcd_directory.h"

namespace phub::server {
namespace {

// What the configuration lists; it never changes.
class StaticDirectory final : public Directory {
 public:
  explicit StaticDirectory(DirectoryOptions options) : options_(std::move(options)) {
    std::sort(options_.racks.begin(), options_.racks.end(),
              [](const RackEntry& a, const RackEntry& b) { return a.name < b.name; });
  }

  void announce(const std::string& /*control_address*/) override {}
  std::vector<RackEntry> racks() const override { return options_.racks; }
  bool may_grow() const override { return false; }
  void on_change(std::function<void()> /*changed*/) override {}
  DirectoryStatus status() const override { return {.source = "configuration"}; }
  std::string own_rack() const override { return options_.rack; }
  std::string own_address() const override { return options_.address; }

 private:
  DirectoryOptions options_;
};

}  // namespace

Result<std::unique_ptr<Directory>> Directory::create(const DirectoryOptions& options) {
  if (options.etcd) return EtcdDirectory::create(options);
  return std::unique_ptr<Directory>(std::make_unique<StaticDirectory>(options));
}

}  // namespace phub::server
