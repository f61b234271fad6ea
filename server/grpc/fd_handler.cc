/* server/grpc/fd_handler.cc - the one class of gRPC's core that we call by its virtual functions.
 *
 * Its declaration is no public header's, so it is repeated here: it has been the same from 1.30, where it
 * came to be, to 1.76 (src/core/lib/iomgr/tcp_server.h), because libgrpc++ calls it across libraries.
 * tests/unit's test_grpc would see a change at once: no call would arrive.
 *
 * Does not: accept or count connections (grpc_accept.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/fd_handler.h"

struct grpc_byte_buffer;

namespace grpc_core
{

class TcpServerFdHandler
{
  public:
    virtual ~TcpServerFdHandler() = default;
    virtual void Handle(int listener_fd, int fd, grpc_byte_buffer *pending_read) = 0;
};

} // namespace grpc_core

void td_fd_handler_give(void *handler, int fd)
{
    static_cast<grpc_core::TcpServerFdHandler *>(handler)->Handle(-1, fd, nullptr);
}
