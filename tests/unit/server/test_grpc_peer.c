/* tests/unit/server/test_grpc_peer.c - what gRPC's core calls its peers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/grpc_peer.h"

#include <netinet/in.h>

#include "tests/test.h"

/* As 1.51 and 1.76 write them, and what they do not. */
TEST(peers_are_read)
{
    static const struct {
        const char *uri;
        int family;
        bool local;
    } cases[] = {
        {"ipv4:127.0.0.1:4000", AF_INET, true},
        {"ipv4:127.9.9.9:1", AF_INET, true},
        {"ipv4:10.0.0.1:4000", AF_INET, false},
        {"ipv6:%5B::1%5D:4000", AF_INET6, true},
        {"ipv6:[::1]:4000", AF_INET6, true},
        {"ipv6:%5B::ffff:127.0.0.1%5D:4000", AF_INET6, true},
        {"ipv6:[::ffff:10.0.0.1]:4000", AF_INET6, false},
        {"ipv6:%5B2001:db8::1%5D:4000", AF_INET6, false},
        {"unix:", AF_UNIX, true},
        {"unix:/tmp/socket", AF_UNIX, true},
        {"unknown", AF_UNSPEC, false},
        {"ipv4:", AF_UNSPEC, false},
        {"ipv6:[:1", AF_UNSPEC, false},
        {"ipv4:127.0.0.1.evil:1", AF_UNSPEC, false},
        {"ipv6:%5B1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb%5D:1", AF_UNSPEC, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_storage peer;
        td_grpc_peer_of(cases[i].uri, &peer);
        CHECK_INT(peer.ss_family, cases[i].family);
        CHECK_INT(td_grpc_peer_is_local(&peer), cases[i].local);
    }
}

TEST(the_port_is_read)
{
    struct sockaddr_storage peer;
    td_grpc_peer_of("ipv4:10.0.0.1:4000", &peer);
    CHECK_INT(ntohs(((struct sockaddr_in *)&peer)->sin_port), 4000);
    td_grpc_peer_of("ipv6:%5B2001:db8::1%5D:65535", &peer);
    CHECK_INT(ntohs(((struct sockaddr_in6 *)&peer)->sin6_port), 65535);
}

TEST_MAIN(RUN(peers_are_read) RUN(the_port_is_read))
