// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	remotecommandconsts "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"
	remotecommandserver "k8s.io/kubelet/pkg/cri/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// serveAPI serves the part of the kubelet's API that the API server and the
// tests use. It asks for no client certificate: only the rig can reach it.
func (n *node) serveAPI() error {
	sans := []string{n.name}
	for _, ip := range n.ips {
		sans = append(sans, ip.String())
	}
	cert, err := selfSigned(n.name, sans)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	mux.HandleFunc("/pods", n.servePods)
	mux.HandleFunc("/logs/", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "<pre>\n</pre>\n")
	})
	for _, p := range []string{"/exec/{ns}/{pod}/{container}", "/exec/{ns}/{pod}/{uid}/{container}"} {
		mux.HandleFunc(p, n.serveExec)
	}
	mux.HandleFunc("GET /containerLogs/{ns}/{pod}/{container}", n.serveLogs)
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(kubeletPort)))
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler:   mux,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}},
	}
	go func() {
		if err := srv.ServeTLS(l, "", ""); err != nil {
			klog.ErrorS(err, "kubelet API")
		}
	}()
	return nil
}

func (n *node) servePods(rw http.ResponseWriter, _ *http.Request) {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	n.mu.Lock()
	for _, w := range n.workers {
		list.Items = append(list.Items, *w.pod)
	}
	n.mu.Unlock()
	json.NewEncoder(rw).Encode(&list)
}

func (n *node) serveExec(rw http.ResponseWriter, req *http.Request) {
	opts, err := remotecommandserver.NewOptions(req)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	if n.find(req.PathValue("ns"), req.PathValue("pod")) == nil {
		http.Error(rw, "pod does not exist", http.StatusNotFound)
		return
	}
	remotecommandserver.ServeExec(rw, req, n, req.PathValue("ns")+"/"+req.PathValue("pod"), types.UID(req.PathValue("uid")),
		req.PathValue("container"), req.Form["command"], opts, 4*time.Hour, 30*time.Second,
		remotecommandconsts.SupportedStreamingProtocols)
}

// ExecInContainer runs a command for kubectl exec. A terminal is not given,
// even when asked for.
func (n *node) ExecInContainer(ctx context.Context, name string, _ types.UID, container string, argv []string,
	in io.Reader, out, errw io.WriteCloser, _ bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	ns, pod, _ := strings.Cut(name, "/")
	c := n.container(ns, pod, container)
	if c == nil {
		return fmt.Errorf("no container %q in pod %s", container, name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, err := c.execCommand(ctx, argv)
	if err != nil {
		return err
	}
	if out != nil {
		cmd.Stdout = out
	}
	if errw != nil {
		cmd.Stderr = errw
	}
	if in != nil {
		// Not cmd.Stdin: Wait would wait for the client to close it.
		p, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			io.Copy(p, in)
			p.Close()
		}()
	}
	err = cmd.Run()
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		code := ee.ExitCode()
		if code < 0 {
			code = 137
		}
		return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

func (n *node) container(ns, pod, name string) *container {
	w := n.find(ns, pod)
	if w == nil {
		return nil
	}
	for _, c := range w.containers() {
		if c.spec.Name == name {
			return c
		}
	}
	return nil
}
