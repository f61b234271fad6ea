/* tests/host_cuda/stand_in.h - what the stand-ins of NVIDIA's libraries share: a wrong call is told, numbers
 * are read and written, and work is queued on the host-run device's streams.
 *
 * A stand-in has the file name of the library and is found as that is. It has the functions that tensord
 * calls, and no others; each checks all that it is given before it computes, in plain loops and in double. A
 * wrong call is a report of the device's (host_cuda.h): "host_cuda: cublasLtMatmul: ..".
 *
 *   HOST_CUDA_LIBRARIES=cublaslt,cudnn,nccl    only these can be used: 0: none; the others are there and
 *                                              refuse, as where a driver does not fit
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_STAND_IN_H
#define TD_TESTS_HOST_CUDA_STAND_IN_H

#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace stand_in
{

enum class number { FLOAT, DOUBLE, HALF, BFLOAT16, NONE };
size_t size_of(number type);
std::vector<double> load(number type, const void *from, size_t n);
void store(number type, void *to, size_t i, double value);
double to_tf32(double value); /* of a float */

bool usable(const char *library); /* HOST_CUDA_LIBRARIES */

/* Reports the call, in these words; returns false. */
bool wrong(const char *call, const std::string &what);

/* Memory that a call is given. */
struct place {
    const char *name;
    const void *at;
    size_t bytes;
    bool writes;
};
/* Whole within one living allocation of the current device, and aligned; else it is reported. */
bool check_place(const char *call, const place &p, size_t aligned);
/* No place that is written shares a byte with another one; else it is reported. */
bool check_apart(const char *call, const std::vector<place> &places);
/* A living stream of the current device, and not the legacy one; else it is reported. */
bool check_stream(const char *call, cudaStream_t stream);
cudaError_t queue(cudaStream_t stream, const char *what, const std::vector<place> &places,
                  std::function<void()> run);

int current_device();
unsigned current_context(); /* of that device */
bool device_works();        /* it has no error that stays */

/* The objects of one kind that were made and not destroyed. */
template <class T> class registry
{
  public:
    T *add()
    {
        const std::lock_guard<std::mutex> l(mu);
        auto fresh = std::make_unique<T>();
        T *const at = fresh.get();
        all[at] = std::move(fresh);
        return at;
    }
    /* NULL: there is no such object, or no more. */
    T *find(const void *at)
    {
        const std::lock_guard<std::mutex> l(mu);
        const auto i = all.find(at);
        return i == all.end() ? nullptr : i->second.get();
    }
    bool remove(const void *at)
    {
        const std::lock_guard<std::mutex> l(mu);
        return all.erase(at) == 1;
    }
    size_t count()
    {
        const std::lock_guard<std::mutex> l(mu);
        return all.size();
    }

  private:
    std::mutex mu;
    std::map<const void *, std::unique_ptr<T>> all;
};

} // namespace stand_in

#endif
