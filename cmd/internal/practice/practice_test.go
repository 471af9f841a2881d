package practice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// helperEnv makes the test binary behave as a supervisor of its own, so that
// tests can kill one: its value is "owned" or "detached".
const helperEnv = "RUTTER_PRACTICE_TEST_HELPER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(helperEnv); mode != "" {
		os.Exit(helper(mode, os.Args[1]))
	}
	os.Exit(m.Run())
}

// helper starts a cluster in dir, says so, and waits to be killed if it owns it.
func helper(mode, dir string) int {
	_, err := Start(context.Background(), Options{
		Clusters: []string{"a"}, Dir: dir, Owned: mode == "owned", Progress: os.Stderr,
	})
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	os.Stdout.WriteString("ready\n")
	if mode == "owned" {
		select {}
	}
	return 0
}

// testContext ends before the test binary is made to panic, so that a build
// that takes longer than the test may is ended and cleaned up.
func testContext(t *testing.T) context.Context {
	t.Helper()
	deadline, ok := t.Deadline()
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadlineCause(t.Context(), deadline.Add(-20*time.Second),
		errors.New("the time for tests is over: a first build takes longer, run go test with -timeout 40m"))
	t.Cleanup(cancel)
	return ctx
}

// startClusters builds what is missing and starts clusters that end with the
// test.
func startClusters(t *testing.T, opts Options) *State {
	t.Helper()
	opts.Owned, opts.Progress = true, os.Stderr
	if opts.Dir == "" {
		opts.Dir = filepath.Join(t.TempDir(), "practice")
	}
	s, err := Start(testContext(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return s
}

// kubectl runs the clusters' kubectl and returns its output and exit error.
func (s *State) kubectl(t *testing.T, cluster, stdin string, args ...string) (string, error) {
	t.Helper()
	args = append([]string{"--kubeconfig", s.Kubeconfig, "--context", cluster}, args...)
	cmd := exec.CommandContext(t.Context(), s.Kubectl, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // its discovery cache
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (s *State) must(t *testing.T, cluster, stdin string, args ...string) string {
	t.Helper()
	out, err := s.kubectl(t, cluster, stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// eventually polls until ok returns true.
func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	timeout := time.After(within)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("after %s: not %s", within, what)
		}
	}
}

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  names: {kind: Widget, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// TestClusters takes two clusters through what runbooks meet on real ones.
func TestClusters(t *testing.T) {
	s := startClusters(t, Options{Clusters: []string{"rome", "milan"}, AuditLog: true})

	t.Run("contexts", func(t *testing.T) {
		got := s.must(t, "rome", "", "config", "get-contexts", "-o", "name")
		if got != "milan\nrome" {
			t.Errorf("contexts are %q", got)
		}
		uid := []string{"get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"}
		if a, b := s.must(t, "rome", "", uid...), s.must(t, "milan", "", uid...); a == b {
			t.Errorf("both clusters are %s", a)
		}
		if info, err := os.Stat(s.Kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("kubeconfig: %v, %v; want mode 0600", info.Mode(), err)
		}
		version := s.must(t, "milan", "", "version")
		if c, _ := s.Cluster("milan"); strings.Count(version, c.Version) != 2 {
			t.Errorf("the cluster is %s, kubectl says\n%s", c.Version, version)
		}
	})
	t.Run("deployment", func(t *testing.T) { testDeployment(t, s) })
	t.Run("finalizer", func(t *testing.T) { testFinalizer(t, s) })
	t.Run("stale discovery", func(t *testing.T) { testStaleDiscovery(t, s) })
	t.Run("garbage", func(t *testing.T) { testGarbage(t, s) })
	t.Run("permissions", func(t *testing.T) { testPermissions(t, s) })
	t.Run("disruption", func(t *testing.T) { testDisruption(t, s) })
	t.Run("restart", func(t *testing.T) { testRestart(t, s) })
	t.Run("audit", func(t *testing.T) { testAudit(t, s) })
	t.Run("stop", func(t *testing.T) { testStop(t, s) })
}

func testDeployment(t *testing.T, s *State) {
	s.must(t, "rome", "", "create", "namespace", "shop")
	s.must(t, "rome", "", "-n", "shop", "create", "deployment", "web", "--image=nginx", "--replicas=2")
	eventually(t, "two pending pods of a replica set", 20*time.Second, func() bool {
		return s.must(t, "rome", "", "-n", "shop", "get", "pods", "-o", "jsonpath={.items[*].status.phase}") == "Pending Pending" &&
			s.must(t, "rome", "", "-n", "shop", "get", "replicasets", "-o", "jsonpath={.items[*].spec.replicas}") == "2"
	})
	eventually(t, "an event of the scheduler", 20*time.Second, func() bool {
		return strings.Contains(s.must(t, "rome", "", "-n", "shop", "get", "events"), "FailedScheduling")
	})
	if out, err := s.kubectl(t, "milan", "", "get", "namespace", "shop"); err == nil {
		t.Errorf("the other cluster has it too: %s", out)
	}
	s.must(t, "rome", "", "delete", "namespace", "shop", "--timeout=40s")
}

func testFinalizer(t *testing.T, s *State) {
	s.must(t, "rome", widgetCRD, "apply", "-f", "-")
	s.must(t, "rome", "", "wait", "--for=condition=Established", "crd/widgets.example.org", "--timeout=20s")
	s.must(t, "rome", "", "create", "namespace", "stuck")
	s.must(t, "rome", `
apiVersion: example.org/v1
kind: Widget
metadata: {name: w, namespace: stuck, finalizers: [example.org/hold]}
`, "apply", "-f", "-")
	s.must(t, "rome", "", "delete", "namespace", "stuck", "--wait=false")
	condition := func() string {
		return s.must(t, "rome", "", "get", "namespace", "stuck", "-o",
			`jsonpath={.status.phase} {.status.conditions[?(@.type=="NamespaceFinalizersRemaining")].message}`)
	}
	eventually(t, "a namespace that names the finalizer", 30*time.Second, func() bool {
		got := condition()
		return strings.HasPrefix(got, "Terminating ") && strings.Contains(got, "example.org/hold in 1 resource instances")
	})
	s.must(t, "rome", "", "-n", "stuck", "patch", "widget", "w", "--type=json", `-p=[{"op":"remove","path":"/metadata/finalizers"}]`)
	s.must(t, "rome", "", "wait", "--for=delete", "namespace/stuck", "--timeout=60s")
}

func testStaleDiscovery(t *testing.T, s *State) {
	s.must(t, "rome", `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.liqo.io}
spec:
  group: metrics.liqo.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: gone, namespace: gone}
`, "apply", "-f", "-")
	eventually(t, "an unavailable APIService", 20*time.Second, func() bool {
		return strings.Contains(s.must(t, "rome", "", "get", "apiservice", "v1beta1.metrics.liqo.io"), "ServiceNotFound")
	})
	s.must(t, "rome", "", "create", "namespace", "blocked")
	s.must(t, "rome", "", "delete", "namespace", "blocked", "--wait=false")
	eventually(t, "a namespace with a discovery failure", 30*time.Second, func() bool {
		return strings.Contains(s.must(t, "rome", "", "get", "namespace", "blocked", "-o",
			`jsonpath={.status.conditions[?(@.type=="NamespaceDeletionDiscoveryFailure")].message}`), "metrics.liqo.io/v1beta1")
	})
	s.must(t, "rome", "", "delete", "apiservice", "v1beta1.metrics.liqo.io")
	s.must(t, "rome", "", "wait", "--for=delete", "namespace/blocked", "--timeout=60s")
}

func testGarbage(t *testing.T, s *State) {
	s.must(t, "milan", widgetCRD, "apply", "-f", "-")
	s.must(t, "milan", "", "wait", "--for=condition=Established", "crd/widgets.example.org", "--timeout=20s")
	s.must(t, "milan", "", "create", "configmap", "owner")
	uid := s.must(t, "milan", "", "get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
	owned := `
metadata:
  name: owned
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: ` + uid + `}]
`
	s.must(t, "milan", "apiVersion: v1\nkind: Secret"+owned+"---\napiVersion: example.org/v1\nkind: Widget"+owned, "apply", "-f", "-")
	s.must(t, "milan", "", "delete", "configmap", "owner")
	s.must(t, "milan", "", "wait", "--for=delete", "secret/owned", "widget/owned", "--timeout=40s")
}

func testPermissions(t *testing.T, s *State) {
	s.must(t, "milan", "", "create", "serviceaccount", "viewer")
	s.must(t, "milan", "", "create", "clusterrolebinding", "viewer", "--clusterrole=view", "--serviceaccount=default:viewer")
	as := "--as=system:serviceaccount:default:viewer"
	eventually(t, "a viewer who may read, by the aggregated role", 20*time.Second, func() bool {
		out, _ := s.kubectl(t, "milan", "", "auth", "can-i", "get", "pods", as)
		return out == "yes"
	})
	if out, _ := s.kubectl(t, "milan", "", "auth", "can-i", "delete", "namespaces", as); !strings.HasSuffix(out, "no") {
		t.Errorf("the viewer may delete namespaces: %s", out)
	}
	token := s.must(t, "milan", "", "create", "token", "viewer")
	c, _ := s.Cluster("milan")
	out := s.must(t, "milan", "", "--kubeconfig=/dev/null", "--context=", "--server="+c.Server, "--token="+token,
		"--certificate-authority="+filepath.Join(c.Dir, caCert), "auth", "whoami")
	if !strings.Contains(out, "system:serviceaccount:default:viewer") {
		t.Errorf("the token is of\n%s", out)
	}
}

func testDisruption(t *testing.T, s *State) {
	s.must(t, "milan", "", "create", "deployment", "db", "--image=nginx")
	s.must(t, "milan", "", "create", "poddisruptionbudget", "db", "--selector=app=db", "--min-available=1")
	eventually(t, "a budget that allows nothing", 20*time.Second, func() bool {
		return s.must(t, "milan", "", "get", "pdb", "db", "-o", "jsonpath={.status.expectedPods} {.status.disruptionsAllowed}") == "1 0"
	})
}

func testRestart(t *testing.T, s *State) {
	before, _ := s.Cluster("milan")
	if err := s.Restart(testContext(t), "milan"); err != nil {
		t.Fatal(err)
	}
	after, _ := s.Cluster("milan")
	if after.Server != before.Server || after.Processes[0].PID == before.Processes[0].PID {
		t.Errorf("before %+v, after %+v; want the same address and another process", before, after)
	}
	s.must(t, "milan", "", "get", "serviceaccount", "viewer")
}

func testAudit(t *testing.T, s *State) {
	s.must(t, "rome", "", "create", "configmap", "seen")
	c, _ := s.Cluster("rome")
	data, err := os.ReadFile(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var event struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Name string }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if event.Verb == "create" && event.User.Username == adminUser && event.ObjectRef.Name == "seen" {
			return
		}
	}
	t.Errorf("no event about the ConfigMap of %s", adminUser)
}

func testStop(t *testing.T, s *State) {
	_, err := Start(testContext(t), Options{Clusters: []string{"rome"}, Dir: s.Dir, Owned: true})
	if !errors.Is(err, ErrRunning) {
		t.Errorf("a second Start: %v, want ErrRunning", err)
	}
	clusters := append([]Cluster(nil), s.Clusters...)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range clusters {
		for _, p := range c.Processes {
			if p.Alive() {
				t.Errorf("%s: process %d still runs", c.Name, p.PID)
			}
		}
	}
	if _, err := os.Stat(s.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want it gone", s.Dir, err)
	}
	var out bytes.Buffer
	if err := Stop(t.Context(), s.Dir, &out); err != nil || !strings.Contains(out.String(), "nothing is running") {
		t.Errorf("stopping again: %v, %q", err, &out)
	}
}

// startHelper runs the test binary as a supervisor and returns it once its
// cluster is ready.
func startHelper(t *testing.T, mode, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), os.Args[0], dir)
	cmd.Env = append(os.Environ(), helperEnv+"="+mode)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("ready\n"))
	if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
		t.Fatalf("the helper said %q, %v", line, err)
	}
	return cmd
}

// TestKilledSupervisor: clusters that belong to a process end with it, however
// it ends, and the next start cleans up after it.
func TestKilledSupervisor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "practice")
	cmd := startHelper(t, "owned", dir)
	before, err := Status(dir)
	if err != nil || len(before) != 1 || !before[0].Running {
		t.Fatalf("Status: %+v, %v; want one running cluster", before, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	eventually(t, "a cluster that ends with its owner", 5*time.Second, func() bool { return !before[0].Alive() })

	after, err := Status(dir)
	if err != nil || len(after) != 1 || after[0].Running {
		t.Errorf("Status: %+v, %v; want one dead cluster", after, err)
	}
	s := startClusters(t, Options{Clusters: []string{"b"}, Dir: dir})
	if _, err := os.Stat(filepath.Join(dir, clustersName, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old cluster's files: %v, want them gone", err)
	}
	s.must(t, "b", "", "get", "namespaces")

	// A control plane that is killed leaves nothing but its files.
	killed := s.Clusters[0]
	kill(killed.Processes[0])
	if err := s.Wait(testContext(t)); err == nil || !strings.Contains(err.Error(), " ended (signal: killed)") {
		t.Errorf("Wait: %v, want the end of b", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestDetached: clusters outlive the command that started them until Stop.
func TestDetached(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "practice")
	cmd := startHelper(t, "detached", dir)
	t.Cleanup(func() { Stop(context.WithoutCancel(t.Context()), dir, os.Stderr) })
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.must(t, "a", "", "get", "namespaces")
	status, err := Status(dir)
	if err != nil || len(status) != 1 || !status[0].Running || status[0].Version == "" || status[0].Context != "a" {
		t.Errorf("Status: %+v, %v; want one running cluster", status, err)
	}
	if err := Stop(t.Context(), dir, os.Stderr); err != nil {
		t.Fatal(err)
	}
	if status[0].Alive() {
		t.Errorf("process %d still runs", status[0].Processes[0].PID)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want it gone", dir, err)
	}
}

// TestFailedStart: nothing is left of clusters that cannot start, and the error
// says why.
func TestFailedStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "practice")
	_, err := Start(testContext(t), Options{
		Clusters: []string{"a", "b"}, Dir: dir, Owned: true, Progress: os.Stderr,
		APIServerArgs: []string{"--no-such-flag"},
	})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("Start: %v, want the log's last lines", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want it gone", dir, err)
	}
}
