/* server/base/nvml.h - what NVIDIA's management library tells of a GPU: how busy, how warm, how full it is.
 *
 * libnvidia-ml.so.1 comes with the driver. It is looked for when it is first wanted, and nothing is missed
 * without it but these numbers.
 *
 * Threads: any, but for td_nvml_open and td_nvml_close.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_NVML_H
#define TD_SERVER_BASE_NVML_H

#include <stdbool.h>
#include <stddef.h>

struct td_nvml;

/* NAN: the GPU does not tell, as a part of one (MIG) does not. */
struct td_nvml_reading {
    double busy; /* the share of the last moments in which a kernel ran: 0 to 1 */
    double celsius, watts;
    double memory, memory_used; /* bytes, of all processes */
    char uuid[96];              /* "": it does not tell */
};

/* NULL: there is none. */
struct td_nvml *td_nvml_open(void);
void td_nvml_close(struct td_nvml *n); /* accepts NULL */
/* The driver's version, "580.65.06"; "" without one. n may be NULL. */
void td_nvml_driver(const struct td_nvml *n, char *text, size_t room);
/* pci: "0000:1b:00.0". n may be NULL. */
void td_nvml_read(const struct td_nvml *n, const char *pci, struct td_nvml_reading *out);

#endif
