package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"rutter/executor/kube/kubetest"
)

// operator is a person with the command, a kubeconfig and a home of their own.
type operator struct {
	t          *testing.T
	home       string
	kubeconfig string
	context    string
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	kubeconfig, kubeContext := kubetest.Cluster(t, "a")
	return &operator{t, t.TempDir(), kubeconfig, kubeContext}
}

// command returns rutter, which is this very program under another name.
func (o *operator) command(args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		o.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Args = append([]string{"rutter"}, args...)
	cmd.Dir = "testdata/live"
	cmd.Env = append(os.Environ(), "HOME="+o.home, "XDG_STATE_HOME="+o.home, "KUBECONFIG="+o.kubeconfig)
	return cmd
}

func (o *operator) rutter(args ...string) (code int, stdout, stderr string) {
	o.t.Helper()
	cmd := o.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		o.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// kubectl runs the real one as the cluster's administrator.
func (o *operator) kubectl(stdin string, args ...string) string {
	o.t.Helper()
	cmd := exec.Command("kubectl", append([]string{"--context", o.context}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.Getenv(kubetest.Env))
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (o *operator) apply(yaml string) { o.t.Helper(); o.kubectl(yaml, "apply", "-f", "-") }

const twoHeldMaps = `
{apiVersion: v1, kind: Namespace, metadata: {name: demo}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: demo, finalizers: [x.io/guard]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: demo, finalizers: [x.io/guard]}}
`

// versions is every object that matters here with its resourceVersion.
func (o *operator) versions() string {
	return o.kubectl("", "get", "configmaps,namespaces", "-A", "--sort-by=.metadata.uid",
		"-o", "custom-columns=NS:.metadata.namespace,NAME:.metadata.name,UID:.metadata.uid,RV:.metadata.resourceVersion,GONE:.metadata.deletionTimestamp")
}

func (o *operator) want(code int, stdout, stderr string, wantCode int, wants ...string) {
	o.t.Helper()
	if code != wantCode {
		o.t.Errorf("exit code %d, want %d", code, wantCode)
	}
	for _, w := range wants {
		if !strings.Contains(stdout+stderr, w) {
			o.t.Errorf("the output does not say %q", w)
		}
	}
	if o.t.Failed() {
		o.t.Logf("stdout:\n%s\nstderr:\n%s", stdout, stderr)
	}
}

func TestLiveRun(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.apply(twoHeldMaps)
	args := []string{"free.yaml", "-i", "ns=demo", "--cluster", "local=" + o.context}

	before := o.versions()
	code, out, errs := o.rutter(append([]string{"plan"}, args...)...)
	o.want(code, out, errs, 0, "would delete 1", "- namespaces/demo", "would free 2", "3 changes planned; nothing was changed yet")
	if diff := cmp.Diff(before, o.versions()); diff != "" {
		t.Errorf("the plan changed something (-before +after):\n%s", diff)
	}

	code, out, errs = o.rutter(append([]string{"run"}, args...)...)
	o.want(code, out, errs, exitDeclined, "declined", "nobody to ask")
	if diff := cmp.Diff(before, o.versions()); diff != "" {
		t.Errorf("the declined run changed something (-before +after):\n%s", diff)
	}

	code, out, errs = o.rutter(append([]string{"run", "--yes"}, args...)...)
	o.want(code, out, errs, 0, "2 freed", "done: free", "demo is gone")
	if left := o.versions(); strings.Contains(left, "demo") || !strings.Contains(left, "other") {
		t.Errorf("left on the cluster:\n%s", left)
	}

	before = o.versions()
	code, out, errs = o.rutter(append([]string{"run", "--yes"}, args...)...)
	o.want(code, out, errs, 0, "nothing to do: free", "no object was changed")
	if diff := cmp.Diff(before, o.versions()); diff != "" {
		t.Errorf("the second run changed something (-before +after):\n%s", diff)
	}

	code, out, errs = o.rutter("runs", "list")
	o.want(code, out, errs, 0, "nothing to do", "done", "declined", "local="+o.context)
	code, out, errs = o.rutter("runs", "show", "last")
	o.want(code, out, errs, 0, "# Free a namespace: nothing to do", "None: no object was changed.")
}

func TestLiveRunWithoutPermission(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.apply(twoHeldMaps + `
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: viewer, namespace: other}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: viewer-of-all},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view},
 subjects: [{kind: ServiceAccount, name: viewer, namespace: other}]}
`)
	token := strings.TrimSpace(o.kubectl("", "create", "token", "viewer", "-n", "other"))
	o.kubeconfig = filepath.Join(o.home, "viewer")
	admin, err := clientcmd.LoadFromFile(os.Getenv(kubetest.Env))
	if err != nil {
		t.Fatal(err)
	}
	user := admin.AuthInfos[admin.Contexts[o.context].AuthInfo]
	user.ClientCertificateData, user.ClientKeyData, user.ClientCertificate, user.ClientKey, user.Token = nil, nil, "", "", token
	if err := clientcmd.WriteToFile(*admin, o.kubeconfig); err != nil {
		t.Fatal(err)
	}
	before := o.versions()
	code, out, errs := o.rutter("run", "free.yaml", "--yes", "-i", "ns=demo", "--cluster", "local="+o.context)
	o.want(code, out, errs, exitRefused, "system:serviceaccount:other:viewer", "nothing was changed", "local: delete namespaces demo   (ns)",
		"local: patch configmaps in namespace demo   (cms)", "list apiservices.apiregistration.k8s.io   (why)", "kind: ClusterRole")
	if diff := cmp.Diff(before, o.versions()); diff != "" {
		t.Errorf("the refused run changed something (-before +after):\n%s", diff)
	}
	if code, out, _ := o.rutter("runs", "list"); code != 0 || !strings.Contains(out, "no runs yet") {
		t.Errorf("a refused run was recorded: %d %s", code, out)
	}
	o.kubectl("", "delete", "clusterrolebinding", "viewer-of-all")
}

// TestLiveKill kills the command while a write is under way, which takes an API
// server that is slow to answer: a proxy stands in front of the real one.
func TestLiveKill(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.apply(twoHeldMaps)
	arrived := make(chan string, 16)
	o.kubeconfig = o.slowProxy(arrived)
	cmd := o.command("run", "free.yaml", "--yes", "-i", "ns=demo", "--cluster", "local="+o.context)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case <-arrived:
	case <-ctx.Done():
		t.Error("no patch was sent")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed

	code, list, errs := o.rutter("runs", "list")
	o.want(code, list, errs, 0, "broken off")
	code, shown, errs := o.rutter("runs", "show", "last")
	o.want(code, shown, errs, 0, "# Free a namespace: broken off", "### ns: rescued", "### cms: under way",
		"delete namespaces/demo on local, by step ns: **done**", "patch demo/configmaps/a on local, by step cms: **under way**")
	if t.Failed() {
		t.Logf("the run said:\n%s", out.String())
	}
}

func TestLiveInterrupt(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.apply(twoHeldMaps)
	cmd := o.command("run", "free.yaml", "--yes", "-i", "ns=demo", "--cluster", "local="+o.context)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	buf := make([]byte, 4096)
	for interrupted := false; ; {
		n, err := out.Read(buf)
		said.Write(buf[:n])
		if !interrupted && strings.Contains(said.String(), "still there") {
			interrupted = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait() // its exit code says how it ended
	o.want(cmd.ProcessState.ExitCode(), said.String(), "", exitInterrupted, "interrupted; cleaning up", "Look once more", "interrupted: free")
	if strings.Contains(said.String(), "Free the config maps") {
		t.Error("a further step was started")
	}
}

// slowProxy starts a proxy to the API server that never answers a PATCH, and
// returns a kubeconfig for it. It tells arrived of each.
func (o *operator) slowProxy(arrived chan<- string) string {
	o.t.Helper()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: o.context}).ClientConfig()
	if err != nil {
		o.t.Fatal(err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		o.t.Fatal(err)
	}
	target, err := url.Parse(cfg.Host)
	if err != nil {
		o.t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval = transport, -1
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			arrived <- r.URL.Path
			<-over
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	o.t.Cleanup(func() { close(over); server.CloseClientConnections(); server.Close() })
	path := filepath.Join(o.home, "proxy")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {}}]\ncontexts: [{name: %q, context: {cluster: c, user: u}}]\n", server.URL, o.context)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
	return path
}
