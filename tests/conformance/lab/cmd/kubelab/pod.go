// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	statuspatch "k8s.io/kubernetes/pkg/util/pod"
)

// podWorker runs one Pod from its first sight to its end.
type podWorker struct {
	n               *node
	uid             types.UID
	namespace, name string
	created         time.Time
	dir             string
	hostNet         bool
	net             *podNet // nil with hostNetwork

	mu           sync.Mutex
	pod          *v1.Pod
	initC, mainC []*container
	initialized  bool
	finished     bool // every container ended for good
	netReady     bool
	failReason   string // eviction and the like
	failMessage  string
	setupError   string

	dirty    chan struct{}
	term     chan struct{} // closed: stop the containers
	termOnce sync.Once
	grace    time.Duration // guarded by mu
	gone     bool          // the API object is gone; guarded by mu
	torndown chan struct{} // closed when nothing of the Pod is left here
}

func randomID() string {
	b := make([]byte, 32)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func newPodWorker(n *node, pod *v1.Pod) *podWorker {
	w := &podWorker{
		n: n, uid: pod.UID, namespace: pod.Namespace, name: pod.Name, pod: pod,
		created:  time.Now(),
		dir:      filepath.Join(n.dir, "pods", string(pod.UID)),
		hostNet:  pod.Spec.HostNetwork,
		dirty:    make(chan struct{}, 1),
		term:     make(chan struct{}),
		torndown: make(chan struct{}),
	}
	for i := range pod.Spec.InitContainers {
		w.initC = append(w.initC, newContainer(w, &pod.Spec.InitContainers[i], true))
	}
	for i := range pod.Spec.Containers {
		w.mainC = append(w.mainC, newContainer(w, &pod.Spec.Containers[i], false))
	}
	return w
}

func (w *podWorker) containers() []*container {
	return append(append([]*container{}, w.initC...), w.mainC...)
}

// update takes a newer Pod object.
func (w *podWorker) update(pod *v1.Pod) {
	w.mu.Lock()
	w.pod = pod
	w.mu.Unlock()
	if pod.DeletionTimestamp != nil {
		g := 30 * time.Second
		if pod.DeletionGracePeriodSeconds != nil {
			g = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
		}
		w.terminate(g)
	}
	w.changed()
}

func (w *podWorker) terminate(grace time.Duration) {
	w.mu.Lock()
	first := false
	w.termOnce.Do(func() { first = true })
	if first || grace < w.grace {
		w.grace = grace
	}
	w.mu.Unlock()
	if first {
		close(w.term)
	}
}

// abandon ends the Pod without a word to the API server.
func (w *podWorker) abandon() {
	w.mu.Lock()
	w.gone = true
	w.mu.Unlock()
	w.terminate(0)
	for _, c := range w.containers() {
		c.kill()
	}
}

func (w *podWorker) terminating() bool {
	select {
	case <-w.term:
		return true
	default:
		return false
	}
}

// changed asks for a status update.
func (w *podWorker) changed() {
	select {
	case w.dirty <- struct{}{}:
	default:
	}
}

func (w *podWorker) getPod() *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod
}

func (w *podWorker) podIPs() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.netReady {
		return nil
	}
	ips := w.n.ips
	if !w.hostNet {
		ips = w.net.ips
	}
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return out
}

func (w *podWorker) run() {
	statusDone := make(chan struct{})
	stopStatus := make(chan struct{})
	go func() {
		defer close(statusDone)
		w.statusLoop(stopStatus)
	}()
	defer w.n.forget(w)

	for !w.terminating() {
		err := w.setup()
		if err == nil {
			break
		}
		klog.ErrorS(err, "pod setup", "pod", klog.KRef(w.namespace, w.name))
		w.mu.Lock()
		w.setupError = err.Error()
		w.mu.Unlock()
		w.changed()
		select {
		case <-w.term:
		case <-time.After(2 * time.Second):
		}
	}
	w.mu.Lock()
	w.setupError = ""
	w.mu.Unlock()

	stopEvict := make(chan struct{})
	go w.watchStorage(stopEvict)

	var sidecars sync.WaitGroup
	ok := w.runInit(&sidecars)
	if ok && !w.terminating() {
		w.mu.Lock()
		w.initialized = true
		w.mu.Unlock()
		w.changed()
		var mains sync.WaitGroup
		for _, c := range w.mainC {
			mains.Add(1)
			go func() {
				defer mains.Done()
				c.loop(w.getPod().Spec.RestartPolicy)
			}()
		}
		done := make(chan struct{})
		go func() { mains.Wait(); close(done) }()
		select {
		case <-done:
		case <-w.term:
			w.stopAll(w.mainC)
			<-done
		}
	}
	// The sidecars go last.
	w.stopSidecars(&sidecars)
	close(stopEvict)
	w.teardown()
	w.mu.Lock()
	w.finished = true
	gone := w.gone
	w.mu.Unlock()
	close(w.torndown)

	if !gone {
		w.changed()
	}
	// Wait for the deletion, then send the last status and remove the object.
	for !gone {
		w.mu.Lock()
		gone = w.gone
		del := w.pod.DeletionTimestamp != nil
		w.mu.Unlock()
		if gone || del {
			break
		}
		<-w.term
		time.Sleep(50 * time.Millisecond)
	}
	close(stopStatus)
	<-statusDone
	if !gone {
		w.n.deletePod(w.getPod())
	}
	os.RemoveAll(w.dir)
}

// runInit runs the init containers in turn; restartable ones (sidecars) are
// only waited for until they have started.
func (w *podWorker) runInit(sidecars *sync.WaitGroup) bool {
	for _, c := range w.initC {
		if w.terminating() {
			return false
		}
		if c.sidecar() {
			sidecars.Add(1)
			go func() {
				defer sidecars.Done()
				c.loop(v1.RestartPolicyAlways)
			}()
			if !c.waitStarted() {
				return false
			}
			continue
		}
		policy := w.getPod().Spec.RestartPolicy
		if policy == v1.RestartPolicyAlways {
			policy = v1.RestartPolicyOnFailure
		}
		done := make(chan struct{})
		go func() { c.loop(policy); close(done) }()
		select {
		case <-done:
		case <-w.term:
			w.stopAll([]*container{c})
			<-done
		}
		if !c.succeeded() {
			return false
		}
	}
	return true
}

func (w *podWorker) stopAll(cs []*container) {
	var wg sync.WaitGroup
	for _, c := range cs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c.stop()
		}()
	}
	wg.Wait()
}

func (w *podWorker) stopSidecars(wg *sync.WaitGroup) {
	for i := len(w.initC) - 1; i >= 0; i-- {
		if c := w.initC[i]; c.sidecar() {
			c.end()
			c.stop()
		}
	}
	wg.Wait()
}

// setup makes directories, volumes and the network. It may be called again
// after an error.
func (w *podWorker) setup() error {
	for _, d := range []string{"volumes", "containers", "logs"} {
		if err := os.MkdirAll(filepath.Join(w.dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := w.setupVolumes(); err != nil {
		return err
	}
	w.mu.Lock()
	ready := w.netReady
	w.mu.Unlock()
	if ready {
		return nil
	}
	if !w.hostNet {
		if err := w.setupNet(); err != nil {
			return err
		}
	}
	w.mu.Lock()
	w.netReady = true
	w.mu.Unlock()
	if err := w.writeEtc(); err != nil {
		return err
	}
	w.changed()
	return nil
}

func (w *podWorker) setupNet() (err error) {
	p := &podNet{namespace: w.namespace, name: w.name, sandbox: randomID()}
	p.netns = "kl-" + w.n.name + "-" + p.sandbox[:12]
	for _, c := range w.containers() {
		for _, cp := range c.spec.Ports {
			if cp.HostPort != 0 {
				p.hostPorts = append(p.hostPorts, hostPort{strings.ToLower(string(cp.Protocol)), cp.HostIP, cp.HostPort, cp.ContainerPort})
			}
		}
	}
	defer func() {
		if err != nil {
			w.freeNet(p)
		}
	}()
	for _, a := range w.n.ipams {
		ip, err := a.get()
		if err != nil {
			return err
		}
		p.ips = append(p.ips, ip)
	}
	if err := command("", "ip", "netns", "add", p.netns); err != nil {
		return err
	}
	// The settings that container runtimes give a Pod.
	set := "net.ipv4.ip_unprivileged_port_start=0\nnet.ipv4.ping_group_range=0 2147483647\n"
	if len(p.ips) > 1 {
		set += "net.ipv6.conf.all.accept_dad=0\nnet.ipv6.conf.default.accept_dad=0\n"
	}
	if sc := w.getPod().Spec.SecurityContext; sc != nil {
		for _, s := range sc.Sysctls {
			set += s.Name + "=" + s.Value + "\n"
		}
	}
	if err := command(set, "nsenter", "--net=/run/netns/"+p.netns, "sysctl", "-q", "-p", "-"); err != nil {
		return err
	}
	if err := w.n.network.add(p); err != nil {
		return err
	}
	w.mu.Lock()
	w.net = p
	w.mu.Unlock()
	return nil
}

func (w *podWorker) freeNet(p *podNet) {
	if len(p.ips) > 0 {
		if err := w.n.network.del(p); err != nil {
			klog.V(2).ErrorS(err, "network")
		}
	}
	if _, err := os.Stat("/run/netns/" + p.netns); err == nil {
		if err := command("", "ip", "netns", "del", p.netns); err != nil {
			klog.ErrorS(err, "netns")
		}
	}
	for i, ip := range p.ips {
		w.n.ipams[i].put(ip)
	}
}

func (w *podWorker) teardown() {
	w.mu.Lock()
	p := w.net
	w.mu.Unlock()
	if p != nil {
		w.freeNet(p)
	}
}

func (w *podWorker) hostname() (name, domain string) {
	pod := w.getPod()
	if w.hostNet {
		return w.n.name, ""
	}
	name = pod.Name
	if pod.Spec.Hostname != "" {
		name = pod.Spec.Hostname
	}
	if len(name) > 63 {
		name = strings.TrimRight(name[:63], "-.")
	}
	if pod.Spec.Subdomain != "" {
		domain = fmt.Sprintf("%s.%s.svc.%s", pod.Spec.Subdomain, pod.Namespace, w.n.domain)
	}
	return name, domain
}

// writeEtc writes hosts and resolv.conf, which every container gets.
func (w *podWorker) writeEtc() error {
	pod := w.getPod()
	name, domain := w.hostname()
	hosts := "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	for _, ip := range w.podIPs() {
		if domain != "" {
			hosts += fmt.Sprintf("%s\t%s.%s\t%s\n", ip, name, domain, name)
		} else {
			hosts += fmt.Sprintf("%s\t%s\n", ip, name)
		}
	}
	for _, a := range pod.Spec.HostAliases {
		hosts += fmt.Sprintf("%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	var servers, search, options []string
	clusterDNS := pod.Spec.DNSPolicy == v1.DNSClusterFirstWithHostNet ||
		(pod.Spec.DNSPolicy == v1.DNSClusterFirst && !w.hostNet)
	if clusterDNS {
		servers = []string{w.n.clusterDNS}
		search = []string{pod.Namespace + ".svc." + w.n.domain, "svc." + w.n.domain, w.n.domain}
		options = []string{"ndots:5"}
	}
	if c := pod.Spec.DNSConfig; c != nil {
		servers = append(servers, c.Nameservers...)
		search = append(search, c.Searches...)
		for _, o := range c.Options {
			if o.Value != nil {
				options = append(options, o.Name+":"+*o.Value)
			} else {
				options = append(options, o.Name)
			}
		}
	}
	resolv := ""
	if len(search) > 0 {
		resolv += "search " + strings.Join(search, " ") + "\n"
	}
	for _, s := range servers {
		resolv += "nameserver " + s + "\n"
	}
	if len(options) > 0 {
		resolv += "options " + strings.Join(options, " ") + "\n"
	}
	if err := os.WriteFile(filepath.Join(w.dir, "hosts"), []byte(hosts), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.dir, "resolv.conf"), []byte(resolv), 0o644)
}

// watchStorage evicts a Pod that writes more than its ephemeral-storage limit.
func (w *podWorker) watchStorage(stop chan struct{}) {
	limits := map[string]int64{}
	for i := range w.pod.Spec.Containers {
		c := &w.pod.Spec.Containers[i]
		if q, ok := c.Resources.Limits[v1.ResourceEphemeralStorage]; ok {
			limits[c.Name] = q.Value()
		}
	}
	if len(limits) == 0 {
		return
	}
	for {
		select {
		case <-stop:
			return
		case <-time.After(2 * time.Second):
		}
		for name, limit := range limits {
			var sum int64
			filepath.WalkDir(filepath.Join(w.dir, "containers", name), func(_ string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					if i, err := d.Info(); err == nil {
						sum += i.Size()
					}
				}
				return nil
			})
			if sum > limit {
				w.mu.Lock()
				w.failReason = "Evicted"
				w.failMessage = fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", name, fmt.Sprint(limit))
				w.mu.Unlock()
				w.terminate(0)
				w.changed()
				return
			}
		}
	}
}

// statusLoop keeps the API object's status like the state here.
func (w *podWorker) statusLoop(stop chan struct{}) {
	last := *w.getPod().Status.DeepCopy()
	send := func() error {
		w.mu.Lock()
		pod, gone := w.pod, w.gone
		w.mu.Unlock()
		if gone {
			return nil
		}
		next := w.buildStatus(pod, &last)
		_, _, _, err := statuspatch.PatchPodStatus(context.Background(), w.n.client, w.namespace, w.name, w.uid, last, next)
		var se *apierrors.StatusError
		if err != nil && (apierrors.IsNotFound(errors.Unwrap(err)) || strings.Contains(err.Error(), "not found")) {
			return nil
		}
		if err != nil && errors.As(err, &se) && apierrors.IsConflict(se) {
			return nil
		}
		if err != nil {
			klog.ErrorS(err, "status", "pod", klog.KRef(w.namespace, w.name))
			return err
		}
		last = next
		return nil
	}
	retry := func() {
		for range 20 {
			if send() == nil {
				return
			}
			time.Sleep(300 * time.Millisecond)
		}
	}
	for {
		select {
		case <-w.dirty:
			retry()
		case <-stop:
			retry()
			return
		}
	}
}

func (w *podWorker) buildStatus(pod *v1.Pod, old *v1.PodStatus) v1.PodStatus {
	w.mu.Lock()
	initialized, finished, netReady := w.initialized, w.finished, w.netReady
	failReason, failMessage, setupError := w.failReason, w.failMessage, w.setupError
	w.mu.Unlock()

	st := *old.DeepCopy()
	st.InitContainerStatuses = nil
	for _, c := range w.initC {
		st.InitContainerStatuses = append(st.InitContainerStatuses, c.status(netReady))
	}
	st.ContainerStatuses = nil
	for _, c := range w.mainC {
		st.ContainerStatuses = append(st.ContainerStatuses, c.status(netReady))
	}
	if st.StartTime == nil {
		now := metav1.NewTime(w.created.Truncate(time.Second))
		st.StartTime = &now
	}
	st.HostIP, st.HostIPs = w.n.ips[0].String(), nil
	for _, ip := range w.n.ips {
		st.HostIPs = append(st.HostIPs, v1.HostIP{IP: ip.String()})
	}
	if ips := w.podIPs(); len(ips) > 0 {
		st.PodIP, st.PodIPs = ips[0], nil
		for _, ip := range ips {
			st.PodIPs = append(st.PodIPs, v1.PodIP{IP: ip})
		}
	}

	// Phase.
	running, failed, ended := 0, 0, 0
	for _, c := range st.ContainerStatuses {
		switch {
		case c.State.Running != nil:
			running++
		case c.State.Terminated != nil:
			ended++
			if c.State.Terminated.ExitCode != 0 {
				failed++
			}
		case c.LastTerminationState.Terminated != nil:
			running++ // crash loop
		}
	}
	initFailed := false
	for i, c := range w.initC {
		s := st.InitContainerStatuses[i]
		if finished && !c.sidecar() && s.State.Terminated != nil && s.State.Terminated.ExitCode != 0 {
			initFailed = true
		}
	}
	switch {
	case failReason != "":
		st.Phase, st.Reason, st.Message = v1.PodFailed, failReason, failMessage
	case finished && (failed > 0 || initFailed):
		st.Phase = v1.PodFailed
	case finished && ended == len(w.mainC):
		st.Phase = v1.PodSucceeded
	case finished:
		st.Phase = v1.PodFailed // deleted before it ran
	case initialized && running+ended == len(w.mainC):
		st.Phase = v1.PodRunning
	default:
		st.Phase = v1.PodPending
	}
	terminal := st.Phase == v1.PodSucceeded || st.Phase == v1.PodFailed

	// Conditions.
	cond := func(t v1.PodConditionType, ok bool, reason, message string) {
		c := v1.PodCondition{Type: t, Status: v1.ConditionTrue}
		if !ok {
			c.Status, c.Reason, c.Message = v1.ConditionFalse, reason, message
		}
		podutil.UpdatePodCondition(&st, &c)
	}
	notReady := []string{}
	for _, c := range st.ContainerStatuses {
		if !c.Ready {
			notReady = append(notReady, c.Name)
		}
	}
	for i, c := range w.initC {
		if c.sidecar() && !st.InitContainerStatuses[i].Ready {
			notReady = append(notReady, c.spec.Name)
		}
	}
	ready := len(notReady) == 0 && !terminal
	reason, message := "ContainersNotReady", fmt.Sprintf("containers with unready status: [%s]", strings.Join(notReady, " "))
	if st.Phase == v1.PodSucceeded {
		reason, message = "PodCompleted", ""
	} else if st.Phase == v1.PodFailed {
		reason, message = "PodFailed", ""
	}
	if setupError != "" {
		message = setupError
	}
	cond(v1.PodReadyToStartContainers, netReady && !finished, "", "")
	cond(v1.PodInitialized, initialized || st.Phase == v1.PodSucceeded, "ContainersNotInitialized", "")
	cond(v1.ContainersReady, ready, reason, message)
	for _, g := range pod.Spec.ReadinessGates {
		_, c := podutil.GetPodConditionFromList(pod.Status.Conditions, g.ConditionType)
		if ready && (c == nil || c.Status != v1.ConditionTrue) {
			ready, reason, message = false, "ReadinessGatesNotReady", fmt.Sprintf("readiness gate %q", g.ConditionType)
		}
	}
	cond(v1.PodReady, ready, reason, message)
	return st
}
