// A file on a web server, which is read by range requests and must stay what it was.
//
// Any thread may read; each read is one request, which is made again where that may help. Nothing
// is kept of the file but its size, ETag and time. README.md says what a server must do.
#pragma once

#include <memory>
#include <string>

#include "worker/data/formats/byte_source.h"
#include "worker/data/formats/http/http_options.h"

namespace phub::data {

// Asks for the first byte. Errors: kInvalidArgument for what is no URL of http or https, and for a
// server without range requests; kNotFound, kPermissionDenied, kUnavailable. Each has the URL,
// without password and query, and the cure.
//
// Reading: kDataLoss when the file has changed since then, kUnavailable for all else. Each read
// ends after options.tries tries at the latest.
Result<std::unique_ptr<ByteSource>> open_http_file(const std::string& url,
                                                   const HttpOptions& options = {});

}  // namespace phub::data
