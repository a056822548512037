/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_NOTICE_H
#define OFPROXYD_AGENT_NOTICE_H 1

/* What the owner of a Service should know: in the log, and as an Event.  In
 * tests 'kube' may be NULL: then only the log is told. */

#include "ofproxyd/kube/events.h"
#include "services.h"

/* Emits an Event about a Service, which 'ms' may not have any more; logs
 * nothing. */
void notice_event(struct kube *kube, const struct model_service *ms,
                  enum event_reason, const char *note);

/* 'u' claims 'lost', which is the address of 'winner'. */
void notice_conflict(struct kube *kube, const struct model *model,
                     const struct unit *u, const struct addr *lost,
                     const struct unit *winner);

/* 'ep', an endpoint of 'u', is the cluster IP of 'to', which may be 'u'
 * itself: packets would go round. */
void notice_loop(struct kube *kube, const struct model *model,
                 const struct unit *u, const struct eps *ep,
                 const struct unit *to);

/* A part of 'u' is left out, for the reason 'why'. */
void notice_left_out(struct kube *kube, const struct model *model,
                     const struct unit *u, const char *why);

#endif /* src/agent/notice.h */
