/* deploy/grpc/grpc_core_log.cc - a sink of abseil's logging, which the core uses: lines go to it and nowhere
 * else.
 *
 * Does not: filter; who takes the lines has levels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "grpc_core_log.h"

#include <mutex>
#include <string>

#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"

namespace
{

class Sink : public absl::LogSink
{
  public:
    explicit Sink(void (*line)(const char *)) : line_(line) {}
    void Send(const absl::LogEntry &entry) override { line_(std::string(entry.text_message()).c_str()); }

  private:
    void (*const line_)(const char *);
};

} // namespace

void grpc_core_log_to(void (*line)(const char *message))
{
    static std::once_flag once;
    std::call_once(once, [line] {
        absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
        absl::AddLogSink(new Sink(line)); /* lives as long as the process: any thread may log */
        absl::InitializeLog();
    });
}
