// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// node is the stand-in for one kubelet. It runs in the network namespace of
// its node.
type node struct {
	name       string
	ips        []netip.Addr
	podCIDRs   []netip.Prefix
	zone       string
	dir        string // state: pods, logs, rootfs
	binDir     string // agnhost, podinit, boom-server
	clusterDNS string
	domain     string

	client   kubernetes.Interface
	services corelisters.ServiceLister
	network  *network
	ipams    []*ipam

	mu      sync.Mutex
	workers map[types.UID]*podWorker
}

const kubeletPort = 10250

func runNode(args []string) error {
	fs := flag.NewFlagSet("node", flag.ExitOnError)
	n := &node{workers: map[types.UID]*podWorker{}}
	kubeconfig := fs.String("kubeconfig", "", "kubeconfig")
	fs.StringVar(&n.name, "name", "", "node name")
	ips := fs.String("ips", "", "node addresses, comma separated")
	cidrs := fs.String("pod-cidrs", "", "pod CIDRs of this node")
	fs.StringVar(&n.zone, "zone", "", "topology zone label")
	fs.StringVar(&n.dir, "dir", "", "state directory")
	fs.StringVar(&n.binDir, "bin-dir", "", "directory of agnhost and podinit")
	ovsRunDir := fs.String("ovs-run-dir", "", "run directory of the node's Open vSwitch")
	fs.StringVar(&n.clusterDNS, "cluster-dns", "", "DNS server of Pods")
	fs.StringVar(&n.domain, "cluster-domain", "cluster.local", "cluster domain")
	klog.InitFlags(fs)
	fs.Parse(args)

	for _, s := range strings.Split(*ips, ",") {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			return err
		}
		n.ips = append(n.ips, ip)
	}
	var err error
	if n.podCIDRs, err = parsePrefixes(*cidrs); err != nil {
		return err
	}
	for _, c := range n.podCIDRs {
		n.ipams = append(n.ipams, newIPAM(c))
	}
	if n.dir, err = filepath.Abs(n.dir); err != nil {
		return err
	}
	n.network = &network{ovsRunDir: *ovsRunDir, podCIDRs: n.podCIDRs, ports: map[*podNet]bool{}}
	cfg, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.QPS, cfg.Burst = 200, 400
	if n.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := n.network.setup(); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := n.serveAPI(); err != nil {
		return err
	}
	if err := n.register(ctx); err != nil {
		return err
	}
	go n.heartbeat(ctx)

	f := informers.NewSharedInformerFactory(n.client, 0)
	n.services = f.Core().V1().Services().Lister()
	f.Core().V1().Services().Informer()
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())

	pods := informers.NewSharedInformerFactoryWithOptions(n.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", n.name).String()
	}))
	pods.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { n.onPod(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { n.onPod(o.(*v1.Pod)) },
		DeleteFunc: func(o any) {
			if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = t.Obj
			}
			n.onPodGone(o.(*v1.Pod))
		},
	})
	pods.Start(ctx.Done())
	klog.InfoS("node is up", "name", n.name)
	<-ctx.Done()
	return nil
}

func parsePrefixes(s string) (out []netip.Prefix, err error) {
	for _, c := range strings.Split(s, ",") {
		if c == "" {
			continue
		}
		p, err := netip.ParsePrefix(c)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (n *node) register(ctx context.Context) error {
	want := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.name,
			Labels: map[string]string{
				v1.LabelHostname:     n.name,
				v1.LabelOSStable:     "linux",
				v1.LabelArchStable:   "amd64",
				v1.LabelTopologyZone: n.zone,
			},
		},
	}
	for _, c := range n.podCIDRs {
		want.Spec.PodCIDRs = append(want.Spec.PodCIDRs, c.String())
	}
	want.Spec.PodCIDR = want.Spec.PodCIDRs[0]
	nodes := n.client.CoreV1().Nodes()
	var err error
	for range 60 {
		_, err = nodes.Create(ctx, want, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			break
		}
		time.Sleep(time.Second)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		got, err := nodes.Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.fillStatus(&got.Status)
		_, err = nodes.UpdateStatus(ctx, got, metav1.UpdateOptions{})
		return err
	})
}

func (n *node) fillStatus(st *v1.NodeStatus) {
	now := metav1.Now()
	st.Capacity = v1.ResourceList{
		v1.ResourceCPU:              resource.MustParse("32"),
		v1.ResourceMemory:           resource.MustParse("64Gi"),
		v1.ResourcePods:             resource.MustParse("200"),
		v1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	st.Allocatable = st.Capacity
	st.Phase = v1.NodeRunning
	st.Addresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: n.name}}
	for _, ip := range n.ips {
		st.Addresses = append(st.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip.String()})
	}
	st.DaemonEndpoints.KubeletEndpoint.Port = kubeletPort
	st.NodeInfo = v1.NodeSystemInfo{
		MachineID: n.name, SystemUUID: n.name, BootID: n.name,
		KernelVersion: "unknown", OSImage: "kubelab", OperatingSystem: "linux", Architecture: "amd64",
		ContainerRuntimeVersion: "kubelab://1.0", KubeletVersion: "v1.34.2",
	}
	st.Conditions = nil
	for _, c := range []struct {
		t      v1.NodeConditionType
		s      v1.ConditionStatus
		reason string
	}{
		{v1.NodeReady, v1.ConditionTrue, "KubeletReady"},
		{v1.NodeMemoryPressure, v1.ConditionFalse, "KubeletHasSufficientMemory"},
		{v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure"},
		{v1.NodePIDPressure, v1.ConditionFalse, "KubeletHasSufficientPID"},
		{v1.NodeNetworkUnavailable, v1.ConditionFalse, "RouteCreated"},
	} {
		st.Conditions = append(st.Conditions, v1.NodeCondition{
			Type: c.t, Status: c.s, Reason: c.reason, Message: "kubelab",
			LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
}

// heartbeat renews the node's Lease; the node controller needs no more.
func (n *node) heartbeat(ctx context.Context) {
	leases := n.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	for {
		l, err := leases.Get(ctx, n.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			l = &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: n.name, Namespace: v1.NamespaceNodeLease},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(n.name), LeaseDurationSeconds: ptr.To[int32](40)},
			}
			l, err = leases.Create(ctx, l, metav1.CreateOptions{})
		}
		if err == nil {
			l.Spec.RenewTime = ptr.To(metav1.NowMicro())
			_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
		}
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "lease")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Second):
		}
	}
}

func (n *node) onPod(pod *v1.Pod) {
	n.mu.Lock()
	w := n.workers[pod.UID]
	if w == nil {
		terminal := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		if pod.DeletionTimestamp != nil {
			n.mu.Unlock()
			go n.deletePod(pod)
			return
		}
		if terminal {
			n.mu.Unlock()
			return
		}
		w = newPodWorker(n, pod)
		n.workers[pod.UID] = w
		n.mu.Unlock()
		go w.run()
		return
	}
	n.mu.Unlock()
	w.update(pod)
}

func (n *node) onPodGone(pod *v1.Pod) {
	n.mu.Lock()
	w := n.workers[pod.UID]
	n.mu.Unlock()
	if w != nil {
		w.abandon()
	}
}

// deletePod removes the API object, which ends the Pod's graceful deletion.
func (n *node) deletePod(pod *v1.Pod) {
	for range 10 {
		err := n.client.CoreV1().Pods(pod.Namespace).Delete(context.Background(), pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0),
			Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		klog.ErrorS(err, "delete", "pod", klog.KObj(pod))
		time.Sleep(time.Second)
	}
}

func (n *node) forget(w *podWorker) {
	n.mu.Lock()
	delete(n.workers, w.uid)
	n.mu.Unlock()
}

// find returns the worker of a Pod by name.
func (n *node) find(namespace, name string) *podWorker {
	n.mu.Lock()
	defer n.mu.Unlock()
	var best *podWorker
	for _, w := range n.workers {
		if w.namespace == namespace && w.name == name {
			if best == nil || w.created.After(best.created) {
				best = w
			}
		}
	}
	return best
}
