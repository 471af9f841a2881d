package practice

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	readyPoll   = 100 * time.Millisecond
	readyReport = 5 * time.Second
	logTail     = 20      // lines
	maxTail     = 8 << 10 // bytes
)

// await returns when the i-th cluster is of use, one of its programs has ended
// or ctx is over. It starts what has to wait for the API server and records the
// cluster's version.
func (s *State) await(ctx context.Context, i int, begun time.Time) error {
	w := &waiter{spec: s.Clusters[i], cluster: s.running[s.Clusters[i].Name], begun: begun, progress: s.opts.Progress}
	var err error
	if w.client, err = w.cluster.creds.client(); err != nil {
		return fmt.Errorf("reach %s: %w", w.spec.Name, err)
	}
	defer w.client.CloseIdleConnections()
	// Ready includes the default roles.
	if err := w.until(ctx, "/readyz"); err != nil {
		return err
	}
	if err := s.runRest(i); err != nil {
		return err
	}
	const namespace = "/api/v1/namespaces/default"
	if err := w.until(ctx, namespace, namespace+"/serviceaccounts/default"); err != nil {
		return err
	}
	version, err := serverVersion(ctx, w.client, w.spec.Server)
	if err != nil {
		return fmt.Errorf("reach %s: %w", w.spec.Name, err)
	}
	say(w.progress, "%s is ready after %s: Kubernetes %s at %s", w.spec.Name, seconds(begun), version, w.spec.Server)
	s.mu.Lock()
	s.Clusters[i].Version = version
	s.mu.Unlock()
	return nil
}

// waiter waits for one cluster.
type waiter struct {
	spec     Cluster
	cluster  *cluster
	client   *http.Client
	begun    time.Time
	progress io.Writer
}

// until returns when the cluster answers each of the paths well.
func (w *waiter) until(ctx context.Context, paths ...string) error {
	poll, report := time.NewTicker(readyPoll), time.NewTicker(readyReport)
	defer poll.Stop()
	defer report.Stop()
	missing := errors.New("no answer yet")
	for {
		select {
		case <-poll.C:
			if missing = answers(ctx, w.client, w.spec.Server, paths); missing == nil {
				return nil
			}
		case <-report.C:
			say(w.progress, "waiting for %s, %s so far (%v)", w.spec.Name, seconds(w.begun), missing)
		case p := <-w.cluster.exited:
			return fmt.Errorf("%s: %s ended before the cluster was ready (%v)%s", w.spec.Name, p.name, p.err, tail(w.spec.Log()))
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; last seen: %v%s", w.spec.Name, context.Cause(ctx), missing, tail(w.spec.Log()))
		}
	}
}

// answers returns what the first path that is not answered well said.
func answers(ctx context.Context, client *http.Client, server string, paths []string) error {
	for _, path := range paths {
		if _, err := get(ctx, client, server+path); err != nil {
			return err
		}
	}
	return nil
}

func serverVersion(ctx context.Context, client *http.Client, server string) (string, error) {
	body, err := get(ctx, client, server+"/version")
	if err != nil {
		return "", err
	}
	var v struct{ GitVersion string }
	err = json.Unmarshal(body, &v)
	return v.GitVersion, err
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", req.URL.Path, resp.Status)
	}
	return body, nil
}

// client returns an HTTP client of the cluster's administrator.
func (c credentials) client() (*http.Client, error) {
	pair, err := tls.X509KeyPair(c.admin.cert, c.admin.key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.ca)
	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			Proxy:             nil, // loopback only
			TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
		},
	}, nil
}

// tail returns the last lines of a log, ready to follow an error.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxTail {
		f.Seek(-maxTail, io.SeekEnd)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxTail))
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) > logTail {
		lines = lines[len(lines)-logTail:]
	}
	return "\nthe last lines of its log:\n\t" + strings.Join(lines, "\n\t")
}
