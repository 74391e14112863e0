// Files on a web server, which are read by range requests and must stay what they were.
//
// Any thread may read; each read is one request, which is made again where that may help. Nothing
// is kept of a file but its size, ETag and time. README.md says what a server must do.
#pragma once

#include <memory>
#include <string>

#include "worker/data/formats/byte_source.h"
#include "worker/data/formats/http/http_options.h"

namespace phub::data {

class ConnectionPool;

class WebFile : public ByteSource {
 public:
  bool is_far() const override { return true; }
  // The strong ETag, or else Last-Modified. Empty: the server gives neither.
  virtual const std::string& version() const = 0;
};

// Opens the files of one set, which share its connections: their number does not depend on that of
// the files. Any thread may open.
class WebFiles {
 public:
  explicit WebFiles(const HttpOptions& options = {});
  ~WebFiles();

  // Asks for the first byte. Errors: kInvalidArgument for what is no URL of http or https, and for
  // a server without range requests; kNotFound, kPermissionDenied, kUnavailable. Each has the URL,
  // without password and query, and the cure.
  //
  // Reading: kDataLoss when the file has changed since then, kUnavailable for all else. Each read
  // ends after options.tries tries at the latest. A file outlives this object.
  Result<std::unique_ptr<WebFile>> open(const std::string& url) const;

 private:
  HttpOptions options_;
  std::shared_ptr<ConnectionPool> connections_;
};

// A file with connections of its own.
Result<std::unique_ptr<ByteSource>> open_http_file(const std::string& url,
                                                   const HttpOptions& options = {});

}  // namespace phub::data
