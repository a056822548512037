/* SPDX-License-Identifier: Apache-2.0 */
/* How much it costs the kernel to send and to deliver a datagram.
 *
 *     bench-udp SOURCE DESTINATION PORT FLOWS SECONDS
 *
 * Sends datagrams of 1400 bytes over FLOWS sockets in turn, as a tunnel does
 * that spreads connections over source ports, and prints "SENT CPU-SECONDS
 * SECONDS".  Between network namespaces the same CPU takes a datagram all the
 * way to the other end's socket, and its time is in what is printed. */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SIZE      1400
#define MAX_FLOWS 512
#define BURST     64 /* Between two looks at the clock. */

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

static int
open_flow(const char *src, const char *dst, int port)
{
    struct sockaddr_in from = { .sin_family = AF_INET };
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || inet_pton(AF_INET, src, &from.sin_addr) != 1
        || inet_pton(AF_INET, dst, &to.sin_addr) != 1
        || bind(fd, (struct sockaddr *) &from, sizeof from)
        || connect(fd, (struct sockaddr *) &to, sizeof to)) {
        die(dst);
    }
    return fd;
}

int
main(int argc, char *argv[])
{
    static const char data[SIZE];
    int fds[MAX_FLOWS];
    unsigned long n = 0;

    if (argc != 6) {
        fprintf(stderr, "usage: bench-udp SOURCE DESTINATION PORT FLOWS "
                        "SECONDS\n");
        return 2;
    }
    int n_flows = atoi(argv[4]);
    double seconds = atof(argv[5]);

    if (n_flows < 1 || n_flows > MAX_FLOWS) {
        errno = ERANGE;
        die("FLOWS");
    }
    for (int i = 0; i < n_flows; i++) {
        fds[i] = open_flow(argv[1], argv[2], atoi(argv[3]));
    }
    double start = now_s(), cpu = cpu_s();

    while (now_s() < start + seconds) {
        for (int i = 0; i < BURST; i++, n++) {
            if (send(fds[n % n_flows], data, sizeof data, 0) < 0) {
                die("send");
            }
        }
    }
    printf("%lu %.4f %.4f\n", n, cpu_s() - cpu, now_s() - start);
    return 0;
}
