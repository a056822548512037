/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PIPEFIX_H
#define TESTS_SUPPORT_PIPEFIX_H 1

/* Services for tests of the pipeline: of id 0x12345, with port 80 at one
 * cluster IP. */

#include "ofproxyd/pipeline/pipeline.h"

/* Returns 'n' endpoints, sorted, each with an address of its own.  The caller
 * frees them. */
struct eps *pipefix_eps(enum ip_family, size_t n);

/* Makes '*svc', which refers to '*frontend'; 'target' is that of policy
 * Cluster. */
void pipefix_service(enum ip_family, enum proto, struct pipe_target target,
                     struct pipe_frontend *frontend, struct pipe_service *svc);

/* Renders such a Service to 'out'; returns what pipe_render_service() does,
 * and '*err' likewise. */
int pipefix_render(enum ip_family, enum proto, struct pipe_target target,
                   struct fout *out, struct err *err);

/* The same with session affinity, of so many seconds. */
int pipefix_render_affine(enum ip_family, enum proto, uint32_t affinity_s,
                          struct pipe_target target, struct fout *out);

#endif /* pipefix.h */
