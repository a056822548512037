/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_CONFIG_CONFIG_H
#define OFPROXYD_CONFIG_CONFIG_H 1

/* antrea-agent.conf: every key that Antrea's agent knows, read, checked and
 * given its default, by the table options.def. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/compiler.h>

#include "ofproxyd/base/ip.h"

struct ds;

/* Enumerated values.  Their texts in the file stand in src/config/option.c,
 * in the same order. */
enum cfg_encap_mode {
    CFG_ENCAP,
    CFG_NO_ENCAP,
    CFG_HYBRID,
    CFG_NETWORK_POLICY_ONLY
};
enum cfg_datapath_type {
    CFG_DATAPATH_SYSTEM,
    CFG_DATAPATH_NETDEV
};
enum cfg_tunnel_type {
    CFG_TUNNEL_GENEVE,
    CFG_TUNNEL_VXLAN,
    CFG_TUNNEL_GRE,
    CFG_TUNNEL_STT
};
enum cfg_encryption_mode {
    CFG_ENCRYPTION_NONE,
    CFG_ENCRYPTION_IPSEC,
    CFG_ENCRYPTION_WIRE_GUARD
};
enum cfg_mc_encryption_mode {
    CFG_MC_ENCRYPTION_NONE,
    CFG_MC_ENCRYPTION_WIRE_GUARD
};
enum cfg_load_balancer_mode {
    CFG_LB_NAT,
    CFG_LB_DSR
};
enum cfg_node_type {
    CFG_K8S_NODE,
    CFG_EXTERNAL_NODE
};
enum cfg_ipsec_auth_mode {
    CFG_IPSEC_PSK,
    CFG_IPSEC_CERT
};
enum cfg_host_network_mode {
    CFG_HOST_IPTABLES,
    CFG_HOST_NFTABLES
};
enum cfg_tls_version {
    CFG_TLS_ANY,
    CFG_TLS_10,
    CFG_TLS_11,
    CFG_TLS_12,
    CFG_TLS_13
};

/* An address block that may be absent. */
struct cfg_cidr {
    bool present;
    struct cidr cidr;
};

/* An address with a port. */
struct cfg_addr {
    struct ip ip;
    uint16_t port;
};

/* Lists. */
struct cfg_strings {
    char **s;
    size_t n;
};
struct cfg_cidrs {
    struct cidr *cidrs;
    size_t n;
};
struct cfg_ints {
    int64_t *v;
    size_t n;
};

/* A list of mappings that nothing here uses: only their number is kept. */
struct cfg_records {
    size_t n;
};

/* One member a key of options.def: bool, int64_t, char * (never NULL, "" if
 * absent), or one of the types above.  Durations are in ns and named so.
 *
 * A few members are not just what the file says:
 *
 *   - no_snat is true with networkPolicyOnly;
 *   - antrea_proxy_enable is false if the gate AntreaProxy is;
 *   - service_cidr is 10.96.0.0/12 if Services are not served and the file
 *     gives none;
 *   - egress_snat_fully_random_ports follows snat_fully_random_ports;
 *   - feature gates follow AllAlpha and AllBeta;
 *   - antrea_proxy_skip_services holds IP addresses in their usual
 *     spelling. */
struct cfg {
#define CFG_OPTION(FIELD, KEY, TYPE, CTYPE, DEFAULT, MIN, MAX, ARG, USED, \
                   HELP)                                                  \
    CTYPE FIELD;
#include "ofproxyd/config/options.def"
};

/* What there is to say about a file. */
enum cfg_severity {
    CFG_ERROR,   /* The file can't be used. */
    CFG_WARNING, /* Probably not what its author meant. */
    CFG_NOTE     /* A key that ofproxyd accepts and doesn't use. */
};
#define CFG_N_SEVERITIES 3

struct cfg_message {
    enum cfg_severity severity;
    int line, column; /* From 1; 0 if it is about the whole file. */
    char *text;       /* "FILE:LINE:COLUMN: KEY: ...", one line. */
};

/* All messages about one file, in the order of the lines that they are
 * about.  At most CFG_REPORT_MAX of each severity are kept, and a last one
 * says so if there were more; 'n_of' counts all. */
#define CFG_REPORT_MAX 200
struct cfg_report {
    struct cfg_message *messages;
    size_t n, allocated;
    size_t n_of[CFG_N_SEVERITIES];
};

/* Makes a report without messages, for which the caller owes a
 * cfg_report_uninit(). */
void cfg_report_init(struct cfg_report *);
void cfg_report_uninit(struct cfg_report *);

/* Sets '*ret' to the configuration of an empty file.  The caller owes a
 * cfg_uninit(). */
void cfg_init_defaults(struct cfg *ret);

/* Frees what the members point to. */
void cfg_uninit(struct cfg *);

/* Reads and checks the file at 'path'.  Everything that there is to say,
 * also of a file without errors, is added to 'report', which must be
 * initialised: all errors at once, each in a line
 *
 *   FILE:LINE:COLUMN: KEY: found WHAT, allowed WHAT
 *
 * Returns 0, and '*ret' is the caller's to cfg_uninit(); or EINVAL or the
 * errno of reading the file, with at least one CFG_ERROR reported. */
int cfg_load(const char *path, struct cfg *ret, struct cfg_report *report)
    OVS_WARN_UNUSED_RESULT;

/* Does the same with the 'len' bytes at 'text', called 'name' in messages. */
int cfg_load_text(const char *name, const char *text, size_t len,
                  struct cfg *ret, struct cfg_report *report)
    OVS_WARN_UNUSED_RESULT;

/* The text that the file has for a value. */
const char *cfg_encap_mode_to_string(enum cfg_encap_mode);
const char *cfg_datapath_type_to_string(enum cfg_datapath_type);

/* Also the type of the switch's interface. */
const char *cfg_tunnel_type_to_string(enum cfg_tunnel_type);

/* Name of the port for the tunnels to all other nodes. */
#define CFG_TUNNEL_PORT_NAME "antrea-tun0"

/* True if packets to some other nodes go through a tunnel: with encap and
 * hybrid. */
bool cfg_has_tunnel(const struct cfg *);

/* The UDP port that tunnelled packets are sent to: tunnelPort, or the
 * protocol's own (RFC 8926, RFC 7348).  0 without tunnels, or if they are not
 * of UDP (gre, stt). */
uint16_t cfg_tunnel_udp_port(const struct cfg *);

/* True if antreaProxy.skipServices names the Service 'name' in 'namespace'
 * or its first ClusterIP, which may be NULL. */
bool cfg_skips_service(const struct cfg *, const char *namespace,
                       const char *name, const struct ip *cluster_ip);

/* Appends conf/antrea-agent.conf: all keys, commented out at their
 * defaults. */
void cfg_print_example(struct ds *);

/* Appends docs/configuration.md. */
void cfg_print_reference_md(struct ds *);

#endif /* ofproxyd/config/config.h */
