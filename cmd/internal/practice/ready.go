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
	spec := s.Clusters[i]
	c := s.running[spec.Name]
	client, err := c.creds.client()
	if err != nil {
		return fmt.Errorf("reach %s: %w", spec.Name, err)
	}
	defer client.CloseIdleConnections()
	// Ready includes the default roles.
	if err := s.awaitPaths(ctx, spec, c, client, begun, "/readyz"); err != nil {
		return err
	}
	if err := s.runRest(i); err != nil {
		return err
	}
	const namespace = "/api/v1/namespaces/default"
	if err := s.awaitPaths(ctx, spec, c, client, begun, namespace, namespace+"/serviceaccounts/default"); err != nil {
		return err
	}
	version, err := serverVersion(ctx, client, spec.Server)
	if err != nil {
		return fmt.Errorf("reach %s: %w", spec.Name, err)
	}
	say(s.opts.Progress, "%s is ready after %s: Kubernetes %s at %s", spec.Name, seconds(begun), version, spec.Server)
	s.mu.Lock()
	s.Clusters[i].Version = version
	s.mu.Unlock()
	return nil
}

// awaitPaths returns when the cluster answers each of the paths well.
func (s *State) awaitPaths(ctx context.Context, spec Cluster, c *cluster, client *http.Client, begun time.Time, paths ...string) error {
	poll, report := time.NewTicker(readyPoll), time.NewTicker(readyReport)
	defer poll.Stop()
	defer report.Stop()
	missing := errors.New("no answer yet")
	for {
		select {
		case <-poll.C:
			if missing = answers(ctx, client, spec.Server, paths); missing == nil {
				return nil
			}
		case <-report.C:
			say(s.opts.Progress, "waiting for %s, %s so far (%v)", spec.Name, seconds(begun), missing)
		case p := <-c.exited:
			return fmt.Errorf("%s: %s ended before the cluster was ready (%v)%s", spec.Name, p.name, p.err, tail(spec.Log()))
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; last seen: %v%s", spec.Name, context.Cause(ctx), missing, tail(spec.Log()))
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
