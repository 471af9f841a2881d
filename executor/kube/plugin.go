package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// plugin gets credentials from a program that the kubeconfig names. client-go
// has its own, but that one prints to the process's standard error, keeps what
// it printed out of the error, and cannot be interrupted.
type plugin struct {
	conf        *clientcmdapi.ExecConfig
	cluster     *execCluster
	stderr      io.Writer
	interactive bool

	mu      sync.Mutex
	held    *credentials
	expires time.Time
}

type credentials struct {
	token string
	cert  *tls.Certificate
}

// execCredential is what goes to a plugin and comes back from it.
type execCredential struct {
	Kind       string      `json:"kind"`
	APIVersion string      `json:"apiVersion"`
	Spec       execSpec    `json:"spec"`
	Status     *execStatus `json:"status,omitempty"`
}

type execSpec struct {
	Interactive bool         `json:"interactive"`
	Cluster     *execCluster `json:"cluster,omitempty"`
}

type execCluster struct {
	Server     string `json:"server"`
	ServerName string `json:"tls-server-name,omitempty"`
	Insecure   bool   `json:"insecure-skip-tls-verify,omitempty"`
	CA         []byte `json:"certificate-authority-data,omitempty"`
	ProxyURL   string `json:"proxy-url,omitempty"`
	Config     any    `json:"config,omitempty"`
}

type execStatus struct {
	Expires *time.Time `json:"expirationTimestamp"`
	Token   string     `json:"token"`
	Cert    string     `json:"clientCertificateData"`
	Key     string     `json:"clientKeyData"`
}

// pluginError means that a credential plugin gave no credentials.
type pluginError struct {
	command string
	err     error
	stderr  string
	hint    string
}

func (e *pluginError) Error() string {
	s := fmt.Sprintf("get credentials from %s: %v", e.command, e.err)
	for _, more := range []string{e.stderr, e.hint} {
		if more = strings.TrimSpace(more); more != "" {
			s += ": " + more
		}
	}
	return s
}

func (e *pluginError) Unwrap() error { return e.err }

func newPlugin(conf *rest.Config, cfg Config) (*plugin, error) {
	p := &plugin{conf: conf.ExecProvider, stderr: cfg.Stderr}
	switch p.conf.InteractiveMode {
	case clientcmdapi.AlwaysExecInteractiveMode:
		p.interactive = true
		if !cfg.Interactive {
			return nil, &pluginError{command: p.conf.Command, err: errors.New("it has to ask something, and there is no terminal")}
		}
	case clientcmdapi.IfAvailableExecInteractiveMode:
		p.interactive = cfg.Interactive
	}
	if p.conf.ProvideClusterInfo {
		c, err := rest.ConfigToExecCluster(conf)
		if err != nil {
			return nil, &pluginError{command: p.conf.Command, err: err}
		}
		p.cluster = &execCluster{c.Server, c.TLSServerName, c.InsecureSkipTLSVerify, c.CertificateAuthorityData, c.ProxyURL, c.Config}
	}
	return p, nil
}

// get returns credentials that are still good, running the plugin for them if
// need be. Only one run happens at a time, as it may ask the person something.
func (p *plugin) get(ctx context.Context) (*credentials, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil && (p.expires.IsZero() || time.Now().Before(p.expires)) {
		return p.held, nil
	}
	return p.held, p.run(ctx)
}

// refresh runs the plugin although its last credentials had not expired.
func (p *plugin) refresh(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run(ctx)
}

// certificate is called for each TLS handshake.
func (p *plugin) certificate(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	creds, err := p.get(info.Context())
	if err != nil {
		return nil, err
	}
	if creds.cert == nil {
		return &tls.Certificate{}, nil // none, which the server may accept
	}
	return creds.cert, nil
}

func (p *plugin) run(ctx context.Context) error {
	info, err := json.Marshal(execCredential{
		Kind: "ExecCredential", APIVersion: p.conf.APIVersion, Spec: execSpec{p.interactive, p.cluster},
	})
	if err != nil {
		return &pluginError{command: p.conf.Command, err: err}
	}
	var stdout bytes.Buffer
	var stderr tail
	cmd := exec.CommandContext(ctx, p.conf.Command, p.conf.Args...)
	cmd.Env = os.Environ()
	for _, e := range p.conf.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+string(info))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if p.stderr != nil {
		cmd.Stderr = io.MultiWriter(p.stderr, &stderr)
	}
	if p.interactive {
		cmd.Stdin = os.Stdin
	}
	cmd.WaitDelay = time.Second // for what the plugin left running
	if err := cmd.Run(); err != nil {
		e := &pluginError{command: p.conf.Command, err: err, stderr: stderr.String()}
		if errors.Is(err, exec.ErrNotFound) {
			e.hint = p.conf.InstallHint
		}
		if ctx.Err() != nil {
			e.err = context.Cause(ctx)
		}
		return e
	}
	if err := p.take(stdout.Bytes()); err != nil {
		return &pluginError{command: p.conf.Command, err: err, stderr: stderr.String()}
	}
	return nil
}

// take reads the plugin's answer. Errors never quote it.
func (p *plugin) take(answer []byte) error {
	var cred execCredential
	if err := json.Unmarshal(answer, &cred); err != nil {
		return errors.New("its output is not the JSON of an ExecCredential")
	}
	if cred.APIVersion != p.conf.APIVersion || cred.Kind != "ExecCredential" {
		return fmt.Errorf("it answered in %s %s, not in %s ExecCredential", cred.APIVersion, cred.Kind, p.conf.APIVersion)
	}
	st := cred.Status
	if st == nil || st.Token == "" && (st.Cert == "" || st.Key == "") {
		return errors.New("it answered without a token or certificate")
	}
	held := &credentials{token: st.Token}
	if st.Cert != "" && st.Key != "" {
		cert, err := tls.X509KeyPair([]byte(st.Cert), []byte(st.Key))
		if err != nil {
			return errors.New("its certificate and key do not fit together")
		}
		held.cert = &cert
	}
	p.held, p.expires = held, time.Time{}
	if st.Expires != nil {
		p.expires = *st.Expires
	}
	return nil
}

// pluginTransport adds the plugin's token to requests.
type pluginTransport struct {
	plugin *plugin
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *pluginTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	creds, err := t.plugin.get(req.Context())
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	if creds.token != "" && req.Header.Get("Authorization") == "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+creds.token)
	}
	return t.next.RoundTrip(req)
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

const tailSize = 2048

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-tailSize):]...)
	t.kept = t.kept[max(0, len(t.kept)-tailSize):]
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string { return string(t.kept) }
