package practice

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// sleeper starts a process of this test's own that does nothing.
func sleeper(t *testing.T) Process {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	separate(cmd, false)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-done
	})
	p, err := identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p.Name = "sleeper"
	return p
}

// saved writes the state of one cluster with the process given and returns its
// directory.
func saved(t *testing.T, p Process, supervisor *Process) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "practice")
	if err := os.MkdirAll(filepath.Join(dir, clustersName, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &State{Dir: dir, Kubectl: "/bin/kubectl", supervisor: supervisor, Clusters: []Cluster{{
		Name: "a", Context: "a", Server: "https://127.0.0.1:1", Version: "v1.2.3",
		Dir: filepath.Join(dir, clustersName, "a"), Started: time.Now().Add(-time.Minute).UTC(),
		Processes: []Process{p},
	}}}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestStateFile(t *testing.T) {
	p := Process{Name: "controlplane", PID: 12, Start: "34@boot"}
	dir := saved(t, p, &Process{Name: "supervisor", PID: 56, Start: "78@boot"})
	got, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Process{p}, got.Clusters[0].Processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	if got.Kubeconfig != filepath.Join(dir, "kubeconfig") || got.Kubectl != "/bin/kubectl" || got.supervisor.PID != 56 {
		t.Errorf("Open: %+v", got)
	}
	if c, ok := got.Cluster("a"); !ok || c.Version != "v1.2.3" {
		t.Errorf("Cluster: %+v, %v", c, ok)
	}
	if info, err := os.Stat(filepath.Join(dir, stateName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state file: %v, %v; want mode 0600", info, err)
	}
}

func TestStateFileOfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, stateName), []byte(`{"format": 99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "another version of rutter") {
		t.Errorf("Open: %v", err)
	}
}

// A process number that was given to another program since must never be
// killed.
func TestReusedProcessNumber(t *testing.T) {
	p := sleeper(t)
	stale := p
	stale.Start = "1@" + p.Start
	if !p.Alive() || stale.Alive() {
		t.Fatalf("Alive: %v and %v, want true and false", p.Alive(), stale.Alive())
	}
	dir := saved(t, stale, nil)
	status, err := Status(dir)
	if err != nil || len(status) != 1 || status[0].Running || status[0].Uptime != 0 {
		t.Errorf("Status: %+v, %v; want one dead cluster", status, err)
	}
	if err := Stop(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	if !p.Alive() {
		t.Error("Stop killed a process of somebody else")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want it gone", dir, err)
	}
}

func TestStatus(t *testing.T) {
	p := sleeper(t)
	status, err := Status(saved(t, p, nil))
	if err != nil || len(status) != 1 || !status[0].Running || status[0].Uptime < time.Minute {
		t.Errorf("Status: %+v, %v; want a cluster that runs for a minute", status, err)
	}
	// What runs on for a moment after its supervisor is no running cluster.
	gone := Process{Name: "supervisor", PID: p.PID, Start: "1@" + p.Start}
	status, err = Status(saved(t, p, &gone))
	if err != nil || len(status) != 1 || status[0].Running {
		t.Errorf("Status: %+v, %v; want an abandoned cluster", status, err)
	}
	status, err = Status(filepath.Join(t.TempDir(), "none"))
	if err != nil || len(status) != 0 {
		t.Errorf("Status of nothing: %+v, %v", status, err)
	}
}

func TestStop(t *testing.T) {
	p := sleeper(t)
	dir := saved(t, p, nil)
	var out bytes.Buffer
	if err := Stop(t.Context(), dir, &out); err != nil {
		t.Fatal(err)
	}
	if p.Alive() {
		t.Error("the process still runs")
	}
	if err := Stop(t.Context(), dir, &out); err != nil {
		t.Fatal(err)
	}
	want := "practice: stopping a\npractice: nothing is running in " + dir + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// Stop removes only what Start has made.
func TestStopKeepsForeignFiles(t *testing.T) {
	dir := saved(t, Process{Name: "gone", PID: 1 << 22, Start: "1@boot"}, nil)
	mine := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Stop(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "notes.txt" {
		t.Errorf("left: %v, %v; want notes.txt", left, err)
	}
	_, err = prepareDir(t.Context(), Options{Dir: dir, Progress: lines(nil)})
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("prepareDir: %v, want a refusal", err)
	}
}

func TestOptions(t *testing.T) {
	tests := []struct {
		names []string
		want  string
	}{
		{nil, "no practice cluster was named"},
		{[]string{"a", "a"}, `"a" is named twice`},
		{[]string{"../a"}, "a name is made of"},
		{[]string{"Rome"}, "a name is made of"},
		{[]string{strings.Repeat("a", 64)}, "a name is made of"},
	}
	for _, tt := range tests {
		if _, err := Start(t.Context(), Options{Clusters: tt.names}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Start(%q): %v, want %q", tt.names, err, tt.want)
		}
	}
	opts, err := Options{Clusters: []string{"a"}, Getenv: func(name string) string {
		return map[string]string{"XDG_STATE_HOME": "/state"}[name]
	}}.withDefaults()
	if err != nil || opts.Dir != "/state/rutter/practice" {
		t.Errorf("Dir is %s, %v", opts.Dir, err)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(t.Context(), path, nil); !errors.Is(err, errLocked) {
		t.Errorf("a second lock: %v, want errLocked", err)
	}
	waited := 0
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, path, func() { waited++ }); !errors.Is(err, context.DeadlineExceeded) || waited != 1 {
		t.Errorf("a lock that waits: %v after %d calls", err, waited)
	}
	// A lock file that was removed and made anew is another lock.
	os.Remove(path)
	again, err := lock(t.Context(), path, nil)
	if err != nil {
		t.Errorf("lock after the file was removed: %v", err)
	}
	again()
	unlock()
}

func TestKubeconfig(t *testing.T) {
	user := keyPair{cert: []byte("cert"), key: []byte("key")}
	data, err := kubeconfig([]access{
		{name: "rome", server: "https://127.0.0.1:1", ca: []byte("ca"), user: user},
		{name: "milan", server: "https://127.0.0.1:2", ca: []byte("ca"), user: user},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Kind     string
		Current  string `yaml:"current-context"`
		Contexts []struct {
			Name    string
			Context map[string]string
		}
		Clusters []struct {
			Name    string
			Cluster map[string]string
		}
		Users []struct {
			Name string
			User map[string]string
		}
	}
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Kind != "Config" || got.Current != "rome" || len(got.Contexts) != 2 || len(got.Clusters) != 2 || len(got.Users) != 2 {
		t.Fatalf("got %+v", got)
	}
	milan := got.Contexts[1]
	if diff := cmp.Diff(map[string]string{"cluster": "milan", "user": "milan"}, milan.Context); diff != "" || milan.Name != "milan" {
		t.Errorf("context %s (-want +got):\n%s", milan.Name, diff)
	}
	want := map[string]string{"server": "https://127.0.0.1:2", "certificate-authority-data": "Y2E="}
	if diff := cmp.Diff(want, got.Clusters[1].Cluster); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	want = map[string]string{"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"}
	if diff := cmp.Diff(want, got.Users[1].User); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
}
