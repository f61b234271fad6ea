/* tests/host_cuda/nccl.cc - libnccl.so.2 of the tests (stand_in.h): communicators of host-run devices in one
 * process or several.
 *
 * An id names a file of shared memory, which whoever asked for the id has made: who has joined, and a room
 * of ROOM bytes for each. A sum is work of its stream: chunk by chunk each writes its own into its room,
 * all meet, each adds up in the order of ranks, all meet. What is asked for is compared at each meeting:
 * sums that differ in order, number or type from rank to rank, which hang or give nonsense with NCCL, are
 * reports. One that waits for a rank that is gone waits for ever, as NCCL's do, until its communicator is
 * aborted; whoever joins waits for ever for who does not.
 *
 *   HOST_CUDA_NCCL_FAILS=RANK   ncclCommInitRank of that rank fails, and the others are not told
 *   HOST_CUDA_NCCL_DIES=RANK    its process is killed there
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/nccl_api.h"
#include "tests/host_cuda/reports.h"
#include "tests/host_cuda/stand_in.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" {
#define CALL(type, name, parameters) __attribute__((visibility("default"))) type name parameters;
#include "kernels/cuda/base/nccl_api.def"
}

namespace
{

using host_cuda::text;
using stand_in::number;
using stand_in::place;
using stand_in::wrong;

enum { MOST_RANKS = 16, ROOM = 1 << 16, LOOK_US = 20 };
constexpr uint64_t MAGIC = 0x6E63636C2D696421;

/* What a rank says before each chunk. */
struct chunk {
    uint64_t sum, n, at; /* of its sums, from 1; elements in all; where the chunk begins */
    int type;
};

/* In shared memory; zeros at first. */
struct meeting_place {
    std::atomic<int> size, joined, aborted;
    std::atomic<int> device[MOST_RANKS]; /* 1 + its number; 0: nobody has that rank yet */
    std::atomic<unsigned> here, round;
    chunk said[MOST_RANKS];
    alignas(64) char room[MOST_RANKS][ROOM];
};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<unsigned>::is_always_lock_free, "shared");

struct communicator {
    meeting_place *all = nullptr;
    int rank = 0, size = 0, device = 0;
    uint64_t sums = 0;
    std::atomic<bool> aborted{false};
    std::atomic<int> under_way{0};
    ~communicator()
    {
        if (all != nullptr) {
            munmap(all, sizeof *all);
        }
    }
};

struct id {
    uint64_t magic;
    char path[64];
};
static_assert(sizeof(id) <= sizeof(td_nccl_id), "NVIDIA's size");

struct reduction {
    const void *from;
    void *to;
    size_t n;
    int type;
    std::shared_ptr<communicator> comm;
    cudaStream_t stream;
};

std::mutex mu;
std::map<const void *, std::shared_ptr<communicator>> communicators;

/* The files of ids that this process has made: what nobody has joined goes with it. */
struct made_files {
    std::mutex mu;
    std::vector<std::string> paths;
    ~made_files()
    {
        for (const std::string &path : paths) {
            shm_unlink(path.c_str());
        }
    }
} made_here;

thread_local int depth;
thread_local std::vector<reduction> grouped;
thread_local bool group_failed;

std::shared_ptr<communicator> find(const char *call, const void *comm)
{
    const std::lock_guard<std::mutex> l(mu);
    const auto i = communicators.find(comm);
    if (i == communicators.end()) {
        wrong(call, "no such communicator");
        return nullptr;
    }
    if (i->second->device != stand_in::current_device()) {
        wrong(call, text("the communicator is of device %d, and the thread's is %d", i->second->device,
                         stand_in::current_device()));
        return nullptr;
    }
    return i->second;
}

number number_of(int type)
{
    return type == TD_NCCL_FLOAT ? number::FLOAT : type == TD_NCCL_DOUBLE ? number::DOUBLE : number::NONE;
}

/* ------------------------------------------------------------------ meeting */

bool is_over(const communicator &c)
{
    return c.aborted || c.all->aborted != 0;
}

/* False: the communicator was aborted. What came before stays counted, so that nobody may come after. */
bool meet(communicator &c)
{
    if (is_over(c)) {
        return false;
    }
    meeting_place &m = *c.all;
    const unsigned round = m.round;
    if (m.here.fetch_add(1) + 1 == static_cast<unsigned>(c.size)) {
        m.here = 0;
        m.round++;
        return true;
    }
    while (m.round == round) {
        if (is_over(c)) {
            return false;
        }
        usleep(LOOK_US);
    }
    return true;
}

/* All ranks are at the same chunk of the same sum. */
bool agree(const communicator &c, const chunk &mine)
{
    for (int r = 0; r < c.size; r++) {
        const chunk &p = c.all->said[r];
        if (p.sum != mine.sum || p.n != mine.n || p.at != mine.at || p.type != mine.type) {
            host_cuda::report(
                c.device, cudaErrorInvalidValue,
                text("ncclAllReduce: sum %llu of rank %d has %llu elements of type %d, sum %llu "
                     "of rank %d has %llu of type %d",
                     static_cast<unsigned long long>(mine.sum), c.rank,
                     static_cast<unsigned long long>(mine.n), mine.type,
                     static_cast<unsigned long long>(p.sum), r, static_cast<unsigned long long>(p.n),
                     p.type));
            return false;
        }
    }
    return true;
}

void add_up(const communicator &c, number type, void *to, size_t at, size_t n)
{
    std::vector<double> total(n, 0.0);
    for (int r = 0; r < c.size; r++) {
        const std::vector<double> part = stand_in::load(type, c.all->room[r], n);
        for (size_t i = 0; i < n; i++) {
            total[i] += part[i];
        }
    }
    for (size_t i = 0; i < n; i++) {
        stand_in::store(type, to, at + i, total[i]);
    }
}

bool reduce(const reduction &r, uint64_t sum)
{
    communicator &c = *r.comm;
    const number type = number_of(r.type);
    const size_t size = stand_in::size_of(type), most = ROOM / size;
    for (size_t at = 0; at < r.n; at += most) {
        const size_t n = std::min(most, r.n - at);
        const chunk mine = {sum, r.n, at, r.type};
        c.all->said[c.rank] = mine;
        memcpy(c.all->room[c.rank], static_cast<const char *>(r.from) + at * size, n * size);
        if (!meet(c) || !agree(c, mine)) {
            return false;
        }
        add_up(c, type, r.to, at, n);
        if (!meet(c)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ calls */

/* All of one communicator, on one stream, as one chunk of work. */
int queue(std::vector<reduction> todo)
{
    if (todo.empty()) {
        return TD_NCCL_SUCCESS;
    }
    const auto comm = todo[0].comm;
    std::vector<place> places;
    for (const reduction &r : todo) {
        if (r.comm != comm || r.stream != todo[0].stream) {
            wrong("ncclGroupEnd", "a group of several communicators or streams");
            return TD_NCCL_INVALID_USAGE;
        }
        const size_t bytes = r.n * stand_in::size_of(number_of(r.type));
        places.push_back({"from", r.from, bytes, false});
        places.push_back({"to", r.to, bytes, true});
    }
    for (size_t i = 0; i < places.size(); i++) { /* a sum in place is one */
        for (size_t k = 0; k < i; k++) {
            const bool in_place = k + 1 == i && i % 2 == 1 && places[k].at == places[i].at;
            if (!in_place && !stand_in::check_apart("ncclAllReduce", {places[k], places[i]})) {
                return TD_NCCL_INVALID_ARGUMENT;
            }
        }
    }
    const uint64_t first = comm->sums + 1;
    comm->sums += todo.size();
    comm->under_way++;
    const cudaStream_t stream = todo[0].stream;
    const cudaError_t error =
        stand_in::queue(stream, "ncclAllReduce", places, [comm, first, todo = std::move(todo)] {
            for (size_t i = 0; i < todo.size() && reduce(todo[i], first + i); i++) {
            }
            comm->under_way--;
        });
    return error == cudaSuccess ? TD_NCCL_SUCCESS : 1;
}

bool check(const reduction &r, int op)
{
    const char *const call = "ncclAllReduce";
    const number type = number_of(r.type);
    const size_t size = stand_in::size_of(type);
    return (type != number::NONE || wrong(call, text("type %d", r.type))) &&
           (op == TD_NCCL_SUM || wrong(call, text("operation %d", op))) &&
           (r.n > 0 || wrong(call, "there is nothing to sum")) && stand_in::check_stream(call, r.stream) &&
           stand_in::check_place(call, {"from", r.from, r.n * size, false}, size) &&
           stand_in::check_place(call, {"to", r.to, r.n * size, true}, size);
}

/* Of a name that nobody has: a process that was killed leaves its files, and one in another PID namespace may
 * have this one's number and its /dev/shm. */
int make_file(char *path, size_t size)
{
    int fd;
    do {
        unsigned at_random = 0;
        (void)getentropy(&at_random, sizeof at_random);
        snprintf(path, size, "/host_cuda_nccl_%ld_%08x", static_cast<long>(getpid()), at_random);
        fd = shm_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    } while (fd < 0 && (errno == EEXIST || errno == EINTR));
    if (fd >= 0) {
        const std::lock_guard<std::mutex> l(made_here.mu);
        made_here.paths.emplace_back(path);
    }
    return fd;
}

meeting_place *open_place(const id &at)
{
    const int fd = shm_open(at.path, O_RDWR | O_CLOEXEC, 0600);
    void *const m =
        fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(meeting_place), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) {
        close(fd);
    }
    return m == MAP_FAILED ? nullptr : static_cast<meeting_place *>(m);
}

/* Takes the rank's seat, and waits for the others. */
int sit_down(communicator &c)
{
    meeting_place &m = *c.all;
    int none = 0;
    if (!m.size.compare_exchange_strong(none, c.size) && none != c.size) {
        wrong("ncclCommInitRank", text("%d ranks, another one has said %d", c.size, none));
        return TD_NCCL_INVALID_ARGUMENT;
    }
    none = 0;
    if (!m.device[c.rank].compare_exchange_strong(none, c.device + 1)) {
        wrong("ncclCommInitRank", text("rank %d is taken", c.rank));
        return TD_NCCL_INVALID_ARGUMENT;
    }
    m.joined++;
    while (m.joined < c.size) {
        usleep(LOOK_US);
    }
    for (int r = 0; r < c.size; r++) {
        if (r != c.rank && m.device[r] == c.device + 1) {
            return TD_NCCL_INVALID_USAGE; /* "Duplicate GPU detected" */
        }
    }
    return TD_NCCL_SUCCESS;
}

int leave(const char *call, void *comm, bool aborts)
{
    const auto c = find(call, comm);
    if (c == nullptr) {
        return TD_NCCL_INVALID_ARGUMENT;
    }
    if (!aborts && c->under_way > 0) {
        wrong(call, "sums are under way");
    }
    if (aborts) {
        c->all->aborted = 1; /* before this one's sums leave their meeting */
    }
    c->aborted = true;
    const std::lock_guard<std::mutex> l(mu);
    communicators.erase(comm);
    return TD_NCCL_SUCCESS;
}

} // namespace

int ncclGetVersion(int *version)
{
    *version = 22899;
    return TD_NCCL_SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    return result == TD_NCCL_REMOTE_ERROR    ? "remote process exited or there was a network error"
           : result == TD_NCCL_INVALID_USAGE ? "invalid usage"
           : result == TD_NCCL_SYSTEM_ERROR  ? "unhandled system error"
                                             : "invalid argument";
}

const char *ncclGetLastError(void *comm)
{
    (void)comm;
    return stand_in::usable("nccl") ? "" : "the stand-in is not to be used (HOST_CUDA_LIBRARIES)";
}

int ncclGetUniqueId(td_nccl_id *to)
{
    id made = {MAGIC, ""};
    if (!stand_in::usable("nccl")) {
        return 1;
    }
    const int fd = make_file(made.path, sizeof made.path);
    const bool whole = fd >= 0 && TEMP_FAILURE_RETRY(ftruncate(fd, sizeof(meeting_place))) == 0;
    if (!whole) {
        wrong("ncclGetUniqueId", text("%s: %s", made.path, strerror(errno)));
    }
    if (fd >= 0) {
        close(fd);
    }
    memset(to->bytes, 0, sizeof to->bytes);
    memcpy(to->bytes, &made, sizeof made);
    return whole ? TD_NCCL_SUCCESS : TD_NCCL_SYSTEM_ERROR;
}

namespace
{

bool is_rank(const char *variable, int rank)
{
    const char *const said = getenv(variable);
    return said != nullptr && strtol(said, nullptr, 10) == rank;
}

} // namespace

int ncclCommInitRank(void **comm, int size, td_nccl_id with, int rank)
{
    const char *const call = "ncclCommInitRank";
    id at;
    memcpy(&at, with.bytes, sizeof at);
    if (at.magic != MAGIC) {
        wrong(call, "its id is none");
        return TD_NCCL_INVALID_ARGUMENT;
    }
    if (size < 1 || size > MOST_RANKS || rank < 0 || rank >= size) {
        wrong(call, text("rank %d of %d", rank, size));
        return TD_NCCL_INVALID_ARGUMENT;
    }
    if (is_rank("HOST_CUDA_NCCL_DIES", rank)) {
        raise(SIGKILL);
    }
    if (is_rank("HOST_CUDA_NCCL_FAILS", rank)) {
        return TD_NCCL_SYSTEM_ERROR;
    }
    const auto c = std::make_shared<communicator>();
    c->all = open_place(at);
    c->rank = rank;
    c->size = size;
    c->device = stand_in::current_device();
    if (c->all == nullptr) {
        wrong(call, "its id is of no living process");
        return TD_NCCL_INVALID_ARGUMENT;
    }
    const int result = sit_down(*c);
    if (result == TD_NCCL_SUCCESS) {
        (void)shm_unlink(at.path); /* all have it */
        const std::lock_guard<std::mutex> l(mu);
        communicators[c.get()] = c;
        *comm = c.get();
    }
    return result;
}

int ncclCommGetAsyncError(void *comm, int *result)
{
    const auto c = find("ncclCommGetAsyncError", comm);
    if (c == nullptr) {
        return TD_NCCL_INVALID_ARGUMENT;
    }
    *result = is_over(*c) ? TD_NCCL_REMOTE_ERROR : TD_NCCL_SUCCESS;
    return TD_NCCL_SUCCESS;
}

int ncclCommDestroy(void *comm)
{
    return leave("ncclCommDestroy", comm, false);
}

int ncclCommAbort(void *comm)
{
    return leave("ncclCommAbort", comm, true);
}

int ncclGroupStart(void)
{
    depth++;
    return TD_NCCL_SUCCESS;
}

int ncclGroupEnd(void)
{
    if (depth == 0) {
        wrong("ncclGroupEnd", "no group was started");
        return TD_NCCL_INVALID_USAGE;
    }
    if (--depth > 0) {
        return TD_NCCL_SUCCESS;
    }
    const bool failed = group_failed;
    std::vector<reduction> todo;
    todo.swap(grouped);
    group_failed = false;
    return failed ? TD_NCCL_INVALID_ARGUMENT : queue(std::move(todo));
}

int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *comm, td_cuda_stream *stream)
{
    const reduction r = {
        from, to, n, type, find("ncclAllReduce", comm), reinterpret_cast<cudaStream_t>(stream)};
    if (r.comm == nullptr || !check(r, op)) {
        group_failed = depth > 0;
        return TD_NCCL_INVALID_ARGUMENT;
    }
    if (depth == 0) {
        return queue({r});
    }
    grouped.push_back(r);
    return TD_NCCL_SUCCESS;
}
