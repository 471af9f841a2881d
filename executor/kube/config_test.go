package kube_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rutter/executor/kube"
)

// TestMain lets the test binary play a credential plugin.
func TestMain(m *testing.M) {
	switch os.Getenv("KUBE_TEST_PLUGIN") {
	case "":
		os.Exit(m.Run())
	case "fail":
		fmt.Fprintln(os.Stderr, "your login has expired, run: login --again")
		os.Exit(3)
	}
	if !strings.Contains(os.Getenv("KUBERNETES_EXEC_INFO"), `"server":"https://`) {
		os.Exit(4)
	}
	// Each run gives another token.
	count := os.Getenv("KUBE_TEST_PLUGIN")
	f, err := os.OpenFile(count, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(5)
	}
	fmt.Fprint(f, "x")
	f.Close()
	runs, _ := os.ReadFile(count)
	fmt.Fprintln(os.Stderr, "welcome")
	fmt.Printf(`{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"token-%d"}}`, len(runs))
	os.Exit(0)
}

func TestContextsOfAnyName(t *testing.T) {
	s := newServer(t)
	s.put("a")
	for _, name := range []string{"arn:aws:eks:eu/x", "my first cluster", "a/../..", "../../etc", "naïve ☸", `quo"te'd`, "a@b#c%2f"} {
		path := writeKubeconfig(t, "http://"+s.addr, name, "{}")
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := kube.New(kube.Config{Kubeconfig: path, Context: name})
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if _, err := c.Get(t.Context(), widgetRef("a")); err != nil || c.Context() != name {
			t.Errorf("%q: %v", name, err)
		}
		dir := t.TempDir()
		handed, err := c.Kubeconfig(dir)
		if err != nil || filepath.Dir(handed) != dir {
			t.Errorf("%q: kubeconfig %s, %v; want it in %s", name, handed, err, dir)
		}
		names, current, err := kube.Contexts(kube.Config{Kubeconfig: handed})
		if diff := cmp.Diff([]string{name}, names); err != nil || diff != "" || current != name {
			t.Errorf("%q: the kubeconfig handed over has current %q, %v (-want +got):\n%s", name, current, err, diff)
		}
		if info, err := os.Stat(handed); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%q: mode %v, %v; want 0600", name, info.Mode(), err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%q: the user's kubeconfig changed", name)
		}
		c.Close()
	}
}

func TestKubeconfigOfSeveralFiles(t *testing.T) {
	one := writeKubeconfig(t, "http://127.0.0.1:1", "one", "{}")
	two := writeKubeconfig(t, "http://127.0.0.1:2", "two", "{}")
	missing := filepath.Join(t.TempDir(), "none")
	getenv := func(string) string {
		return strings.Join([]string{missing, one, two}, string(filepath.ListSeparator))
	}
	paths := kube.DefaultPaths(getenv, "/home/x")
	names, current, err := kube.Contexts(kube.Config{Paths: paths})
	if diff := cmp.Diff([]string{"one", "two"}, names); err != nil || diff != "" || current != "one" {
		t.Errorf("current %q, %v (-want +got):\n%s", current, err, diff)
	}
	for _, tt := range []struct {
		cfg  kube.Config
		want string
	}{
		{kube.Config{Paths: paths, Context: "tow"}, `no context "tow": did you mean "two"?`},
		{kube.Config{Paths: paths, Context: "production"}, `there is "one", "two"`},
		{kube.Config{Paths: []string{missing}}, "no kubeconfig: there is no file " + missing},
		{kube.Config{Kubeconfig: missing, Paths: paths}, "no kubeconfig: there is no file " + missing},
		{kube.Config{}, "no kubeconfig: set KUBECONFIG"},
	} {
		if _, err := kube.New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.cfg, err, tt.want)
		}
	}
}

func pluginUser(t *testing.T, mode string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{exec: {apiVersion: client.authentication.k8s.io/v1, command: %q, interactiveMode: Never, provideClusterInfo: true, env: [{name: KUBE_TEST_PLUGIN, value: %q}]}}", self, mode)
}

func tlsServer(t *testing.T) *server {
	t.Helper()
	s := newServer(t)
	s.stop()
	s.tls = true
	s.start()
	return s
}

// accept lets only requests with the token through.
func (s *server) accept(token *atomic.Value) {
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+token.Load().(string) {
			return false
		}
		fail(w, 401, "Unauthorized", "")
		return true
	})
}

func TestCredentialPlugin(t *testing.T) {
	s := tlsServer(t)
	s.put("a")
	var token atomic.Value
	token.Store("token-1")
	s.accept(&token)
	var said bytes.Buffer
	c, err := kube.New(kube.Config{
		Kubeconfig: writeKubeconfig(t, "https://"+s.addr, "test", pluginUser(t, filepath.Join(t.TempDir(), "runs"))),
		Stderr:     &said,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Get(t.Context(), widgetRef("a")); err != nil {
		t.Fatal(err)
	}
	token.Store("token-2") // the first one expired early
	if _, err := c.Do(t.Context(), patchWidget("a")); err != nil {
		t.Errorf("after the token expired: %v", err)
	}
	if got := said.String(); got != "welcome\nwelcome\n" {
		t.Errorf("the plugin said %q, want two welcomes", got)
	}
	token.Store("none")
	if _, err := c.Get(t.Context(), widgetRef("a")); !apierrors.IsUnauthorized(err) || !strings.Contains(err.Error(), `context "test": the server does not accept the credentials`) {
		t.Errorf("refused for good: %v", err)
	}
}

func TestCredentialPluginThatFails(t *testing.T) {
	s := tlsServer(t)
	c, err := kube.New(kube.Config{Kubeconfig: writeKubeconfig(t, "https://"+s.addr, "prod", pluginUser(t, "fail"))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Get(t.Context(), widgetRef("a"))
	for _, want := range []string{`context "prod"`, "exit status 3", "your login has expired, run: login --again"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if !errors.Is(err, kube.ErrUnreachable) || len(s.seen()) > 0 {
		t.Errorf("got %v and requests %v", err, s.seen())
	}
}

// A login in another terminal puts another token into the kubeconfig.
func TestNewCredentialsInTheKubeconfig(t *testing.T) {
	s := tlsServer(t)
	s.put("a")
	var token atomic.Value
	token.Store("old")
	s.accept(&token)
	path := writeKubeconfig(t, "https://"+s.addr, "test", "{token: old}")
	c, err := kube.New(kube.Config{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Get(t.Context(), widgetRef("a")); err != nil {
		t.Fatal(err)
	}
	token.Store("new")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte("token: old"), []byte("token: new"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), widgetRef("a")); err != nil {
		t.Errorf("with a new token in the file: %v", err)
	}
}

// impersonate returns the current context of a kubeconfig as another user.
func impersonate(t *testing.T, path, user string) *kube.Cluster {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(data, []byte("  user:\n    client-certificate-data:"), []byte("  user:\n    as: "+user+"\n    client-certificate-data:"), 1)
	if bytes.Equal(data, changed) {
		t.Fatal("the kubeconfig looks different than it used to")
	}
	as := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(as, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kube.New(kube.Config{Kubeconfig: as})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
