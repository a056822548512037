/* SPDX-License-Identifier: Apache-2.0 */
/* How much it costs the kernel to send and to deliver a datagram.
 *
 *     bench-udp SOURCE DESTINATION PORT FLOWS SECONDS
 *
 * Sends datagrams of 1400 bytes with FLOWS source ports in turn, as a tunnel
 * does that spreads connections over source ports, and prints "SENT
 * CPU-SECONDS SECONDS".  Between network namespaces the same CPU takes a
 * datagram all the way to the other end's socket, and its time is in what is
 * printed.  A raw socket, so that there can be as many ports as there are. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SIZE       1400
#define FIRST_PORT 2000
#define MAX_FLOWS  60000
#define BURST      64 /* Between two looks at the clock. */

struct datagram {
    struct iphdr ip;
    struct udphdr udp;
    char data[SIZE];
};

static void
die(const char *what)
{
    fprintf(stderr, "bench-udp: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double
now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec + ts.tv_nsec / 1e9;
}

static double
cpu_s(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
           + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void
fill(struct datagram *d, char *argv[])
{
    *d = (struct datagram){
        .ip = { .version = 4,
                .ihl = 5,
                .ttl = 64,
                .protocol = IPPROTO_UDP,
                .tot_len = htons(sizeof *d) },
        .udp = { .dest = htons(atoi(argv[3])),
                 .len = htons(sizeof d->udp + SIZE) },
    };
    if (inet_pton(AF_INET, argv[1], &d->ip.saddr) != 1
        || inet_pton(AF_INET, argv[2], &d->ip.daddr) != 1) {
        errno = EINVAL;
        die("addresses");
    }
}

int
main(int argc, char *argv[])
{
    static struct datagram d;
    unsigned long n = 0;

    if (argc != 6) {
        fprintf(stderr, "usage: bench-udp SOURCE DESTINATION PORT FLOWS "
                        "SECONDS\n");
        return 2;
    }
    fill(&d, argv);
    int n_flows = atoi(argv[4]);
    double seconds = atof(argv[5]);
    int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_addr.s_addr = d.ip.daddr };

    if (fd < 0 || connect(fd, (struct sockaddr *) &to, sizeof to)) {
        die("raw socket");
    }
    if (n_flows < 1 || n_flows > MAX_FLOWS) {
        errno = ERANGE;
        die("FLOWS");
    }
    double start = now_s(), cpu = cpu_s();

    while (now_s() < start + seconds) {
        for (int i = 0; i < BURST; i++, n++) {
            d.udp.source = htons(FIRST_PORT + n % n_flows);
            if (send(fd, &d, sizeof d, 0) < 0) {
                die("send");
            }
        }
    }
    printf("%lu %.4f %.4f\n", n, cpu_s() - cpu, now_s() - start);
    return 0;
}
