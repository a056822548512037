// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// podNet is the network side of one Pod: a veth pair whose host end is a port
// of the node's bridge. Gateway, tunnel and flows are left to the daemon under
// test.
type podNet struct {
	namespace, name string
	sandbox         string // the sandbox id
	netns           string
	ips             []netip.Addr
	hostPorts       []hostPort
}

// hostPort is a port of the node that leads to the Pod.
type hostPort struct {
	proto      string // tcp, udp, sctp
	ip         string // "" for all
	host, port int32
}

func (p *podNet) hostIf() string { return "v" + p.sandbox[:12] }

// mac is a unicast address made of the Pod's first IP, so that it is known
// before the interface exists.
func (p *podNet) mac() string {
	b := p.ips[0].AsSlice()
	b = b[len(b)-4:]
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

func command(stdin string, argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}

func ipBatch(netns string, lines ...string) error {
	argv := []string{"ip"}
	if netns != "" {
		argv = append(argv, "-n", netns)
	}
	argv = append(argv, "-batch", "-")
	return command(strings.Join(lines, "\n")+"\n", argv...)
}

func sysctl(key, value string) error {
	return os.WriteFile("/proc/sys/"+strings.ReplaceAll(key, ".", "/"), []byte(value), 0o644)
}

// network connects the Pods of one node. Everything runs in the node's network
// namespace.
type network struct {
	ovsRunDir string
	podCIDRs  []netip.Prefix

	mu    sync.Mutex
	ports map[*podNet]bool // those with host ports
}

func (d *network) vsctl(args ...string) error {
	return command("", append([]string{"ovs-vsctl", "--db=unix:" + d.ovsRunDir + "/db.sock", "--timeout=10"}, args...)...)
}

// hostPortRules are what the CNI plug-in "portmap" would bring.
const hostPortRules = `add table inet kubelab
delete table inet kubelab
table inet kubelab {
 chain hostports { }
 chain prerouting { type nat hook prerouting priority -90; fib daddr type local jump hostports; }
 chain output { type nat hook output priority -90; fib daddr type local jump hostports; }
 chain postrouting {
  type nat hook postrouting priority srcnat + 10;
  ip saddr 127.0.0.0/8 oifname != "lo" masquerade
 }
}
`

// setup prepares the node: forwarding, no reverse path filter, a bridge.
func (d *network) setup() error {
	set := [][2]string{
		{"net.ipv4.ip_forward", "1"},
		{"net.ipv4.conf.all.rp_filter", "0"},
		{"net.ipv4.conf.default.rp_filter", "0"},
		{"net.ipv4.conf.all.route_localnet", "1"}, // for host ports of 127.0.0.1
	}
	if len(d.podCIDRs) > 1 {
		set = append(set, [2]string{"net.ipv6.conf.all.forwarding", "1"},
			[2]string{"net.ipv6.conf.default.accept_dad", "0"})
	}
	for _, s := range set {
		if err := os.WriteFile("/proc/sys/"+strings.ReplaceAll(s[0], ".", "/"), []byte(s[1]), 0o644); err != nil {
			return err
		}
	}
	if err := command(hostPortRules, "nft", "-f", "-"); err != nil {
		return err
	}
	return d.vsctl("--may-exist", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev")
}

// add connects the network namespace named p.netns.
func (d *network) add(p *podNet) error {
	ifc := p.hostIf()
	if err := ipBatch("", fmt.Sprintf("link add %s type veth peer name eth0 address %s netns %s", ifc, p.mac(), p.netns),
		fmt.Sprintf("link set %s up", ifc)); err != nil {
		return err
	}
	in := []string{"link set lo up", "link set eth0 up"}
	var ips []string
	for i, ip := range p.ips {
		c := d.podCIDRs[i]
		nodad, all := "", "0.0.0.0/0"
		if ip.Is6() {
			nodad, all = " nodad", "::/0"
		}
		in = append(in, fmt.Sprintf("addr add %s/%d dev eth0%s", ip, c.Bits(), nodad),
			fmt.Sprintf("route add %s via %s dev eth0", all, gateway(c)))
		ips = append(ips, ip.String())
	}
	if err := ipBatch(p.netns, in...); err != nil {
		return err
	}
	// The userspace datapath does not fill in checksums that veth left out.
	if err := command("", "nsenter", "--net=/run/netns/"+p.netns, "ethtool", "-K", "eth0", "tx", "off"); err != nil {
		return err
	}
	if err := d.vsctl("--may-exist", "add-port", "br-int", ifc, "--", "set", "Interface", ifc,
		fmt.Sprintf("external_ids:attached-mac=%q", p.mac()),
		fmt.Sprintf("external_ids:ip-address=%q", strings.Join(ips, ",")),
		fmt.Sprintf("external_ids:pod-name=%q", p.name),
		fmt.Sprintf("external_ids:pod-namespace=%q", p.namespace),
		fmt.Sprintf("external_ids:container-id=%q", p.sandbox)); err != nil {
		return err
	}
	return d.expose(p, len(p.hostPorts) > 0)
}

// del undoes add.
func (d *network) del(p *podNet) error {
	err := d.expose(p, false)
	if e := d.vsctl("--if-exists", "del-port", "br-int", p.hostIf()); err == nil {
		err = e
	}
	if e := command("", "ip", "link", "del", p.hostIf()); err == nil {
		err = e
	}
	return err
}

// expose adds the Pod's host ports, or takes them away, by writing all of the
// node's anew: they are few.
func (d *network) expose(p *podNet, exposed bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ports[p] == exposed {
		return nil
	}
	if exposed {
		d.ports[p] = true
	} else {
		delete(d.ports, p)
	}
	var nft strings.Builder
	nft.WriteString("flush chain inet kubelab hostports\n")
	for p := range d.ports {
		for _, h := range p.hostPorts {
			for _, ip := range p.ips {
				nft.WriteString(h.rule(ip))
			}
		}
	}
	return command(nft.String(), "nft", "-f", "-")
}

// rule is the nftables rule that sends the host port to a Pod's address.
func (h *hostPort) rule(ip netip.Addr) string {
	family, match := "ip", ""
	if ip.Is6() {
		family = "ip6"
	}
	if h.ip != "" && h.ip != "0.0.0.0" && h.ip != "::" {
		a, err := netip.ParseAddr(h.ip)
		if err != nil || a.Is6() != ip.Is6() {
			return ""
		}
		match = family + " daddr " + h.ip + " "
	}
	return fmt.Sprintf("add rule inet kubelab hostports %s%s dport %d dnat %s to %s\n",
		match, h.proto, h.host, family, netip.AddrPortFrom(ip, uint16(h.port)))
}

// gateway is the first address of a pod CIDR.
func gateway(c netip.Prefix) netip.Addr { return c.Masked().Addr().Next() }

// ipam hands out the addresses of one pod CIDR in turn, so that an address is
// not used again at once.
type ipam struct {
	mu   sync.Mutex
	cidr netip.Prefix
	last netip.Addr
	used map[netip.Addr]bool
}

func newIPAM(c netip.Prefix) *ipam {
	return &ipam{cidr: c.Masked(), last: gateway(c), used: map[netip.Addr]bool{}}
}

func (a *ipam) get() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ip := a.last
	for range 65536 {
		ip = ip.Next()
		if !a.cidr.Contains(ip) || (ip.Is4() && !a.cidr.Contains(ip.Next())) {
			ip = gateway(a.cidr)
			continue
		}
		if !a.used[ip] {
			a.used[ip], a.last = true, ip
			return ip, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("pod CIDR %s is full", a.cidr)
}

func (a *ipam) put(ip netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.used, ip)
}
