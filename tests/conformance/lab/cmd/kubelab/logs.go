// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// containerLog is the file of what a container prints; each line begins with
// its time.
type containerLog struct {
	mu sync.Mutex
	f  *os.File
}

func openLog(path string) (*containerLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return &containerLog{f: f}, err
}

func (l *containerLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.f.Close()
}

func (l *containerLog) stream(name string) io.Writer { return &logStream{l: l, name: name} }

type logStream struct {
	l    *containerLog
	name string
	mid  bool // the last line has no newline yet
}

func (s *logStream) Write(p []byte) (int, error) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	var b bytes.Buffer
	for _, line := range bytes.SplitAfter(p, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if !s.mid {
			b.WriteString(time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z07:00"))
			b.WriteByte(' ')
		}
		b.Write(line)
		s.mid = line[len(line)-1] != '\n'
	}
	s.l.f.Write(b.Bytes())
	return len(p), nil
}

func tailLog(path string, n int) []byte {
	data, _ := os.ReadFile(path)
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	var out []byte
	for _, l := range lines {
		_, text, _ := bytes.Cut(l, []byte(" "))
		out = append(out, text...)
	}
	return out
}

// serveLogs is for kubectl logs, with --tail and --timestamps.
func (n *node) serveLogs(rw http.ResponseWriter, req *http.Request) {
	c := n.container(req.PathValue("ns"), req.PathValue("pod"), req.PathValue("container"))
	if c == nil {
		http.Error(rw, "no such container", http.StatusNotFound)
		return
	}
	data, _ := os.ReadFile(c.logPath())
	lines := bytes.SplitAfter(data, []byte("\n"))
	q := req.URL.Query()
	if tail, err := strconv.Atoi(q.Get("tailLines")); err == nil {
		// What is behind the last newline counts as a line, empty or not.
		lines = lines[max(0, len(lines)-1-tail):]
	}
	stamps, _ := strconv.ParseBool(q.Get("timestamps"))
	rw.Header().Set("Content-Type", "text/plain")
	for _, line := range lines {
		if _, text, ok := bytes.Cut(line, []byte(" ")); ok && !stamps {
			line = text
		}
		rw.Write(line)
	}
}
