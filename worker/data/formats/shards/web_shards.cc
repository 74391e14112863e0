#include <utility>

#include "common/text/url_list.h"
#include "worker/data/formats/http/http_file.h"
#include "worker/data/formats/shards/shard.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

class WebShard final : public Shard {
 public:
  WebShard(const std::string& url, std::shared_ptr<const WebFile> file)
      : place_(printable(url.substr(0, path_of_url(url).end))), file_(std::move(file)) {}

  std::string name() const override { return file_->name(); }
  Result<std::shared_ptr<const ByteSource>> open() const override {
    return std::shared_ptr<const ByteSource>(file_);
  }
  // Credentials change, and say nothing of the file.
  void add_to(Fingerprint& number) const override {
    number.add(place_).add(file_->bytes()).add(file_->version());
  }
  bool is_far() const override { return true; }
  bool is_known() const override { return !file_->version().empty(); }
  std::uint64_t memory_bytes() const override {
    return sizeof(*this) + sizeof(WebFile) + 2 * place_.size() + file_->version().size();
  }

 private:
  const std::string place_;  // without a query
  std::shared_ptr<const WebFile> file_;
};

}  // namespace

Result<Shards> web_shards(const std::vector<std::string>& urls, const PassOptions& options) {
  const WebFiles files;
  Shards shards(urls.size());
  PHUB_RETURN_IF_ERROR(
      pass_over(urls.size(), options, [&](std::size_t place, const IsStopped&) -> Status {
        PHUB_ASSIGN_OR_RETURN(std::shared_ptr<const WebFile> file, files.open(urls[place]));
        shards[place] = std::make_unique<WebShard>(urls[place], std::move(file));
        return {};
      }));
  return shards;
}

}  // namespace phub::data
