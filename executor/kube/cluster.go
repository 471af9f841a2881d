// Package kube talks to Kubernetes API servers. It is the only package that
// uses client-go, and it is what a run has for a [step.Cluster].
//
// [Cluster] is one cluster as one kubeconfig context sees it; [New] makes one
// without a request. Objects are unstructured JSON and requests are single
// HTTP requests, since a run has to know for each write whether the server may
// have seen it: what may have is never sent twice, but ends as an
// [UnknownOutcome]. Reads are repeated while that can help, and
// [Cluster.Follow] goes on for as long as its context does.
//
// Nothing is printed: what the server warns of is kept for [Cluster.Warnings],
// what credential plugins say goes where [Config] says, and the log of
// client-go is switched off. The user's kubeconfig files are never written.
package kube

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"rutter/runbooks/step"
)

// Manager is the field manager of every write.
const Manager = "rutter"

const (
	dialTimeout      = 8 * time.Second
	handshakeTimeout = 8 * time.Second
	// The server gives up on a request after a minute; a write waits a little
	// longer for that, so as not to end with an unknown outcome for nothing.
	readTimeout     = 35 * time.Second
	writeTimeout    = 65 * time.Second
	bodyTimeout     = 2 * time.Minute
	defaultPatience = 30 * time.Second
	// firstPatience is how long a server that never answered is tried.
	firstPatience = 3 * time.Second
)

var (
	_ step.Cluster = (*Cluster)(nil)

	// silence makes sure that the process-wide log of client-go is off once.
	silence sync.Once
)

// Cluster is one cluster. It is safe for concurrent use. Close it in the end.
type Cluster struct {
	cfg     Config
	context string
	raw     *clientcmdapi.Config
	base    *url.URL
	discovery

	mu       sync.Mutex
	login    *login
	warnings []string

	answered atomic.Bool // whether the server ever did
}

// login is a set of credentials and the connections made with them.
type login struct {
	conf   *rest.Config
	client *http.Client
	plugin *plugin // nil if the credentials need none
	conns  *http.Transport
}

// New returns the cluster of a context. It reads the kubeconfig and the files
// this names, and sends nothing.
func New(cfg Config) (*Cluster, error) {
	silence.Do(func() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) })
	conf, raw, name, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(conf)
	if err != nil {
		return nil, fmt.Errorf("context %q: server %q: %w", name, conf.Host, err)
	}
	c := &Cluster{cfg: cfg, context: name, raw: raw, base: base}
	c.discovery.groups = map[[2]string]*group{}
	if c.login, err = c.connect(conf); err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	return c, nil
}

// connect prepares connections with the given credentials.
func (c *Cluster) connect(conf *rest.Config) (*login, error) {
	conf = rest.CopyConfig(conf)
	conf.QPS = -1
	conf.UserAgent = "rutter/" + orDefault(c.cfg.Version, "dev")
	s := &login{conf: conf}
	if conf.ExecProvider != nil {
		p, err := newPlugin(conf, c.cfg)
		if err != nil {
			return nil, err
		}
		s.plugin, conf.ExecProvider = p, nil
	}
	tlsConf, err := rest.TLSConfigFor(conf)
	if err != nil {
		return nil, err
	}
	if s.plugin != nil {
		if tlsConf == nil {
			tlsConf = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if tlsConf.GetClientCertificate == nil && len(tlsConf.Certificates) == 0 {
			tlsConf.GetClientCertificate = s.plugin.certificate
		}
	}
	proxy := http.ProxyFromEnvironment
	if conf.Proxy != nil {
		proxy = conf.Proxy
	}
	s.conns = utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               proxy,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     tlsConf,
		TLSHandshakeTimeout: handshakeTimeout,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  conf.DisableCompression,
	})
	var rt http.RoundTripper = s.conns
	if s.plugin != nil {
		rt = &pluginTransport{s.plugin, rt}
	}
	if rt, err = rest.HTTPWrappersForConfig(conf, rt); err != nil {
		return nil, err
	}
	s.client = &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // credentials go nowhere else
	}}
	return s, nil
}

// Close ends the connections that are idle. Requests under way go on.
func (c *Cluster) Close() { c.current().conns.CloseIdleConnections() }

// Context returns the name of the cluster's kubeconfig context.
func (c *Cluster) Context() string { return c.context }

// Server returns the URL of the API server.
func (c *Cluster) Server() string { return c.base.String() }

// Warnings returns what the server warned of, each text once, in order.
func (c *Cluster) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.warnings)
}

// warn keeps the warnings of one answer.
func (c *Cluster) warn(headers []string) {
	if len(headers) == 0 {
		return
	}
	// What cannot be parsed is no warning in the sense of the API.
	found, _ := utilnet.ParseWarningHeaders(headers)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range found {
		if !slices.Contains(c.warnings, w.Text) && len(c.warnings) < 100 {
			c.warnings = append(c.warnings, w.Text)
		}
	}
}

func (c *Cluster) current() *login {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.login
}

// renew looks for other credentials after the server refused those of s: from
// the plugin, or in the kubeconfig, where a login in another terminal may have
// put them. It reports whether there are any.
func (c *Cluster) renew(ctx context.Context, s *login) bool {
	if s.plugin != nil {
		return s.plugin.refresh(ctx) == nil
	}
	conf, raw, name, err := c.cfg.resolve()
	if err != nil || name != c.context {
		return false
	}
	// Another server under the same name is not the cluster of this run.
	if base, _, err := rest.DefaultServerUrlFor(conf); err != nil || base.String() != c.base.String() {
		return false
	}
	if sameCredentials(conf, s.conf) {
		return false
	}
	next, err := c.connect(conf)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.login == s {
		c.login, c.raw = next, raw
	}
	s.conns.CloseIdleConnections()
	return true
}

func sameCredentials(a, b *rest.Config) bool {
	return a.BearerToken == b.BearerToken && a.BearerTokenFile == b.BearerTokenFile &&
		a.Username == b.Username && a.Password == b.Password && a.ExecProvider == nil &&
		a.CertFile == b.CertFile && a.KeyFile == b.KeyFile &&
		slices.Equal(a.CertData, b.CertData) && slices.Equal(a.KeyData, b.KeyData)
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
