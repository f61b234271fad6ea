/* server/grpc/call_authority.cc - the one function of gRPC's core that we call by its C++ name.
 *
 * Its declaration is no public header's (src/core/lib/surface/call.h, from 1.33 to 1.76), so it is repeated
 * here. It returns an absl::string_view: std::string_view where abseil was built as C++17, as deploy/grpc.sh
 * does, else abseil's own, as in Debian 12. tests/e2e/local_only_test.py
 * holds what it says against what was sent.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/call_authority.h"

#ifdef TD_GRPC_SOURCE
#include <string_view>
using view = std::string_view;
#else
class view
{
  public:
    const char *data() const { return p; }
    size_t size() const { return n; }

  private:
    const char *p;
    size_t n;
};
#endif

view grpc_call_server_authority(const grpc_call *call);

size_t td_call_authority(const grpc_call *call, const char **p)
{
    const view v = grpc_call_server_authority(call);
    *p = v.data();
    return v.size();
}
