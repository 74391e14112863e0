// Configuration files: textproto, checked against proto/config.proto and then for sense.
//
// Pure functions; any thread. Errors are kInvalidArgument (kNotFound for a file that is not there)
// and read "FILE:LINE:COLUMN: what is wrong; the cure".
#pragma once

#include <google/protobuf/text_format.h>

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "proto/config.pb.h"

namespace phub {

// Relative paths in a file become relative to its directory.
Result<ServerConfig> load_server_config(const std::string& path);
Result<WorkerConfig> load_worker_config(const std::string& path);
// The same for a configuration that options change: values that make no sense are no error here,
// for an option may mend them. `wrong` receives the first of these errors.
Result<WorkerConfig> load_worker_config(const std::string& path, Status& wrong);

// The same from memory; `name` stands for the file in errors.
Result<ServerConfig> parse_server_config(std::string_view text, const std::string& name);
Result<WorkerConfig> parse_worker_config(std::string_view text, const std::string& name);

// Any other textproto, checked against its schema only.
Status load_textproto(const std::string& path, google::protobuf::Message& message);

// The two halves of it, for who checks more: `places` says where fields are, for further errors.
Result<std::string> read_text(const std::string& path);
Status parse_textproto(std::string_view text, const std::string& name,
                       google::protobuf::TextFormat::ParseInfoTree& places,
                       google::protobuf::Message& message);

// Whether the values make sense, for a configuration that was changed after it was loaded.
// Errors: "FIELD: what is wrong; the cure", behind the place where there is a file.
Status validate(const ServerConfig& config, const std::string& file = {},
                const google::protobuf::TextFormat::ParseInfoTree* places = nullptr);
// Of addresses, words and cores each for itself, whatever the others are: what can be said of a
// command line before there is a file to go with it. Errors: as above.
Status validate_values(const ServerConfig& config);
Status validate(const WorkerConfig& config, const std::string& file = {},
                const google::protobuf::TextFormat::ParseInfoTree* places = nullptr);

}  // namespace phub
